/*
 * The order of block devices. See device_order.h.
 */
#include "tui/device_order.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

void device_order_fini(struct device_order *order)
{
        if (!order)
                return;
        free(order->devices);
        free(order->by_name);
        *order = (struct device_order){0};
}

char device_kind(const struct state_row *row)
{
        uint64_t kind;

        return state_now(row, DISK_KIND, &kind) ? (char)kind : 'w';
}

static int compare_names(const char *a, size_t a_length, const char *b, size_t b_length)
{
        if (a_length != b_length)
                return a_length < b_length ? -1 : 1;
        return a_length ? memcmp(a, b, a_length) : 0;
}

/* Of two devices with one name the first stands. */
static int by_name(const void *left, const void *right, void *arg)
{
        const struct device *devices = arg;
        int i = *(const int *)left, j = *(const int *)right;
        int order = compare_names(devices[i].name, devices[i].name_length, devices[j].name, devices[j].name_length);

        return order ? order : i - j;
}

static int find(const struct device_order *order, const char *name, size_t length)
{
        size_t low = 0, high = order->count;

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                const struct device *device = &order->devices[order->by_name[middle]];
                if (compare_names(device->name, device->name_length, name, length) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        if (low == order->count)
                return DEVICE_NONE;
        const struct device *device = &order->devices[order->by_name[low]];
        return compare_names(device->name, device->name_length, name, length) == 0 ? order->by_name[low] : DEVICE_NONE;
}

static int parent_of(const struct device_order *order, const struct state *state, int index)
{
        const struct state_row *row = order->devices[index].row;
        size_t length = 0;
        const char *text = state_text(state, row, device_kind(row) == 'p' ? DISK_PARENT : DISK_SLAVES, &length);

        if (!text || length == 0)
                return DEVICE_NONE;
        const char *blank = memchr(text, ' ', length);
        int parent = find(order, text, blank ? (size_t)(blank - text) : length);
        return parent == index ? DEVICE_NONE : parent;
}

static int reserve(struct device_order *order, size_t rows)
{
        if (rows <= order->capacity)
                return 0;
        if (rows > INT_MAX / 2)
                return -ENOMEM;
        struct device *devices = reallocarray(order->devices, rows, sizeof *devices);
        if (devices)
                order->devices = devices;
        int *names = reallocarray(order->by_name, rows, sizeof *names);
        if (names)
                order->by_name = names;
        if (!devices || !names)
                return -ENOMEM;
        order->capacity = rows;
        return 0;
}

int device_order_make(struct device_order *order, const struct state *state)
{
        size_t rows = state_count(state, SCOPE_DISK);

        order->count = 0;
        if (reserve(order, rows) < 0)
                return -ENOMEM;
        for (size_t i = 0; i < rows; i++) {
                struct device device = {.row = state_at(state, SCOPE_DISK, i), .parent = DEVICE_NONE, .child = DEVICE_NONE,
                        .next = DEVICE_NONE};
                if (device.row->gone)
                        continue;
                device.name = state_text(state, device.row, DISK_NAME, &device.name_length);
                device.name_length = device.name ? device.name_length : 0;
                order->by_name[order->count] = (int)order->count;
                order->devices[order->count++] = device;
        }
        if (order->count > 1)
                qsort_r(order->by_name, order->count, sizeof *order->by_name, by_name, order->devices);
        for (size_t i = order->count; i-- > 0;) { /* from the end, so that the list of children begins with the first */
                struct device *device = &order->devices[i];
                device->parent = parent_of(order, state, (int)i);
                if (device->parent == DEVICE_NONE)
                        continue;
                device->next = order->devices[device->parent].child;
                order->devices[device->parent].child = (int)i;
        }
        return 0;
}
