/*
 * Where a log's blocks and notes are: made while writing, written as the index, read back, or made again by a look at every record.
 */
#include <errno.h>

#include "sample/log_layout.h"

void log_map_fini(struct log_map *map)
{
        free(map->blocks);
        free(map->notes);
        *map = (struct log_map){0};
}

/* Room for one more; NULL when memory is short. */
static void *room_for(void *array, size_t count, size_t *room, size_t size)
{
        if (count < *room)
                return array;
        size_t more = *room ? *room * 2 : 64;
        void *grown = reallocarray(array, more, size);
        if (grown)
                *room = more;
        return grown;
}

int log_map_block(struct log_map *map, uint64_t offset, const struct log_step *step, uint64_t tick_ns)
{
        struct log_map_block *blocks = room_for(map->blocks, map->block_count, &map->block_room, sizeof *blocks);

        if (!blocks)
                return -ENOMEM;
        map->blocks = blocks;
        blocks[map->block_count++] = (struct log_map_block){.offset = offset, .sequence = step->sequence, .mono_ns = step->mono_ns,
                .real_ns = step->real_ns, .tick_ns = tick_ns};
        log_map_frame(map, step);
        return 0;
}

void log_map_frame(struct log_map *map, const struct log_step *step)
{
        struct log_map_block *block = &map->blocks[map->block_count - 1];

        block->frames++;
        block->marks += (step->flags & FRAME_MARK) != 0;
        map->last = *step;
}

bool log_name_fits(const char *name, size_t length)
{
        static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_.-";

        for (size_t i = 0; i < length; i++)
                if (!memchr(letters, name[i], sizeof letters - 1))
                        return false;
        return length > 0 && length <= LOG_NAME_MAX;
}

int log_map_note(struct log_map *map, uint64_t offset, const char *name, size_t length)
{
        if (!log_name_fits(name, length))
                return -EINVAL;
        for (size_t i = 0; i < map->note_count; i++) {
                struct log_map_note *note = &map->notes[i];
                if (strlen(note->name) == length && memcmp(note->name, name, length) == 0) {
                        note->offset = offset;
                        return 0;
                }
        }
        if (map->note_count == LOG_NOTES_MAX)
                return -EOVERFLOW;
        struct log_map_note *notes = room_for(map->notes, map->note_count, &map->note_room, sizeof *notes);
        if (!notes)
                return -ENOMEM;
        map->notes = notes;
        notes[map->note_count] = (struct log_map_note){.offset = offset};
        memcpy(notes[map->note_count++].name, name, length);
        return 0;
}

void log_map_put(const struct log_map *map, struct bytes_out *out)
{
        struct log_map_block last = {0};

        put_number(out, map->block_count);
        for (size_t i = 0; i < map->block_count; i++) {
                const struct log_map_block *block = &map->blocks[i];
                put_number(out, block->offset - last.offset);
                put_change(out, last.sequence, block->sequence);
                put_change(out, last.mono_ns, block->mono_ns);
                put_change(out, last.real_ns, block->real_ns);
                put_change(out, last.tick_ns, block->tick_ns);
                put_number(out, block->frames);
                put_number(out, block->marks);
                last = *block;
        }
        put_number(out, map->note_count);
        for (size_t i = 0; i < map->note_count; i++) {
                size_t length = strlen(map->notes[i].name);
                put_number(out, map->notes[i].offset);
                put_number(out, length);
                put_bytes(out, map->notes[i].name, length);
        }
        put_number(out, map->last.flags);
        put_number(out, map->last.sequence);
        put_number(out, map->last.mono_ns);
        put_number(out, map->last.real_ns);
}

static int get_blocks(struct log_map *map, struct bytes_in *in, uint64_t end)
{
        struct log_map_block last = {0};

        for (uint64_t count = get_number(in); count > 0; count--) {
                struct log_map_block block = {0};
                uint64_t step = get_number(in);
                block.offset = last.offset + step;
                block.sequence = get_change(in, last.sequence);
                block.mono_ns = get_change(in, last.mono_ns);
                block.real_ns = get_change(in, last.real_ns);
                block.tick_ns = get_change(in, last.tick_ns);
                block.frames = get_number(in);
                block.marks = get_number(in);
                if (in->failed || step == 0 || step >= end - last.offset)
                        return -EBADMSG;
                int r = log_map_block(map, block.offset, &(struct log_step){.sequence = 1}, 0);
                if (r < 0)
                        return r;
                map->blocks[map->block_count - 1] = block;
                last = block;
        }
        return 0;
}

static int get_notes(struct log_map *map, struct bytes_in *in, uint64_t end)
{
        for (uint64_t count = get_number(in); count > 0; count--) {
                uint64_t offset = get_number(in), length = get_number(in);
                const uint8_t *name = length > 0 && length <= LOG_NAME_MAX ? get_bytes(in, (size_t)length) : NULL;
                if (!name || offset >= end)
                        return -EBADMSG;
                int r = log_map_note(map, offset, (const char *)name, (size_t)length);
                if (r < 0)
                        return r;
        }
        return 0;
}

int log_map_get(struct log_map *map, struct bytes_in *in, uint64_t end)
{
        int r = get_blocks(map, in, end);

        if (r == 0)
                r = get_notes(map, in, end);
        if (r < 0)
                return r;
        map->last.flags = (uint16_t)get_number(in);
        map->last.sequence = get_number(in);
        map->last.mono_ns = get_number(in);
        map->last.real_ns = get_number(in);
        return in->failed || in->at != in->end ? -EBADMSG : 0;
}
