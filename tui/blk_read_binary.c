/*
 * blktrace's binary records. See blk_read.h.
 *
 *      version 7    magic 4 | sequence 4 | time 8 | sector 8 | bytes 4 | action 4 | pid 4 | device 4 | cpu 4 | error 2 | pdu len 2 | pdu
 *      version 8    magic 4 | sequence 4 | time 8 | sector 8 | bytes 4 | pid 4 | action 8 | device 4 | cpu 4 | error 2 | pdu len 2 | 12 |
 * pdu
 *
 * magic is 0x656174 and the version in the byte order of the machine that wrote it; the pdu of X, A and U is big-endian everywhere. With
 * bit 8 of the action an id of the control group comes first. From include/uapi/linux/blktrace_api.h.
 */
#include <endian.h>
#include <string.h>

#include "tui/blk_read.h"

enum { TA_QUEUE = 1, TA_BACKMERGE, TA_FRONTMERGE, TA_GETRQ, TA_SLEEPRQ, TA_REQUEUE, TA_ISSUE, TA_COMPLETE, TA_PLUG, TA_UNPLUG_IO,
        TA_UNPLUG_TIMER, TA_INSERT, TA_SPLIT, TA_BOUNCE, TA_REMAP, TA_COUNT, TA_CGROUP = 1 << 8 };
enum { TC_WRITE = 1 << 1, TC_FLUSH = 1 << 2, TC_SYNC = 1 << 3, TC_PC = 1 << 9, TC_NOTIFY = 1 << 10, TC_AHEAD = 1 << 11, TC_META = 1 << 12,
        TC_DISCARD = 1 << 13, TC_FUA = 1 << 15 };
static const uint32_t MAGIC = 0x656174;

struct fields {
        const uint8_t *at;
        bool swap;
};

static uint16_t get16(struct fields *fields)
{
        uint16_t value;
        memcpy(&value, fields->at, sizeof value);
        fields->at += sizeof value;
        return fields->swap ? __builtin_bswap16(value) : value;
}

static uint32_t get32(struct fields *fields)
{
        uint32_t value;
        memcpy(&value, fields->at, sizeof value);
        fields->at += sizeof value;
        return fields->swap ? __builtin_bswap32(value) : value;
}

static uint64_t get64(struct fields *fields)
{
        uint64_t value;
        memcpy(&value, fields->at, sizeof value);
        fields->at += sizeof value;
        return fields->swap ? __builtin_bswap64(value) : value;
}

/* As blkparse writes them. */
static void letters(uint32_t category, uint32_t bytes, char rwbs[10])
{
        size_t n = 0;

        if (category & TC_FLUSH)
                rwbs[n++] = 'F';
        rwbs[n++] = category & TC_DISCARD ? 'D' : category & TC_WRITE ? 'W' : bytes ? 'R' : 'N';
        if (category & TC_FUA)
                rwbs[n++] = 'F';
        if (category & TC_AHEAD)
                rwbs[n++] = 'A';
        if (category & TC_SYNC)
                rwbs[n++] = 'S';
        if (category & TC_META)
                rwbs[n++] = 'M';
        rwbs[n] = '\0';
}

static uint64_t big64(const uint8_t *at)
{
        uint64_t value;
        memcpy(&value, at, sizeof value);
        return be64toh(value);
}

static uint32_t big32(const uint8_t *at)
{
        uint32_t value;
        memcpy(&value, at, sizeof value);
        return be32toh(value);
}

/* What the action carries with it. */
static void payload(struct stage_event *event, const uint8_t *pdu, size_t length)
{
        switch (event->action) {
        case STAGE_X: case STAGE_U: case STAGE_UT:
                if (length >= 8)
                        event->other = big64(pdu);
                break;
        case STAGE_A:
                if (length >= 16) {
                        event->other_device = big32(pdu);
                        event->other = big64(pdu + 8);
                }
                break;
        default: break;
        }
}

static void decode(struct blk_record *record, uint64_t action, const uint8_t *pdu, size_t length, uint32_t bytes, char name[BLK_NAME])
{
        static const uint8_t actions[TA_COUNT] = {[TA_QUEUE] = STAGE_Q, [TA_BACKMERGE] = STAGE_M, [TA_FRONTMERGE] = STAGE_F,
                [TA_GETRQ] = STAGE_G,
                [TA_REQUEUE] = STAGE_R, [TA_ISSUE] = STAGE_D, [TA_COMPLETE] = STAGE_C, [TA_PLUG] = STAGE_P, [TA_UNPLUG_IO] = STAGE_U,
                [TA_UNPLUG_TIMER] = STAGE_UT, [TA_INSERT] = STAGE_I, [TA_SPLIT] = STAGE_X, [TA_REMAP] = STAGE_A,
                [0] = STAGE_ACTIONS, [TA_SLEEPRQ] = STAGE_ACTIONS, [TA_BOUNCE] = STAGE_ACTIONS};
        uint32_t category = (uint32_t)(action >> 16), what = (uint32_t)action & 0xffff;

        if (what & TA_CGROUP) {
                size_t id = length < 8 ? length : 8;
                pdu += id;
                length -= id;
        }
        what &= ~(uint32_t)TA_CGROUP;
        record->event.action = STAGE_ACTIONS;
        if (category & TC_NOTIFY) {
                record->sequence = 0; /* they are not numbered */
                record->note = what == 0 && length > 0; /* 0 a thread's name, 1 the wall clock, 2 a message */
                if (record->note) {
                        size_t used = strnlen((const char *)pdu, length < BLK_NAME - 1 ? length : BLK_NAME - 1);
                        memcpy(name, pdu, used);
                        name[used] = '\0';
                }
                return;
        }
        if (what >= TA_COUNT)
                return;
        record->event.action = actions[what];
        letters(category, bytes, record->rwbs);
        if (category & TC_PC)
                record->event.flags = STAGE_PASSTHROUGH;
        stage_rwbs(record->rwbs, sizeof record->rwbs, &record->event);
        payload(&record->event, pdu, length);
}

size_t blk_parse_binary(const uint8_t *bytes, size_t length, struct blk_record *record, char name[BLK_NAME])
{
        struct fields fields = {.at = bytes};
        uint64_t action;

        if (length < 48)
                return 48;
        uint32_t magic = get32(&fields);
        if (magic >> 8 != MAGIC) {
                magic = __builtin_bswap32(magic);
                fields.swap = true;
        }
        uint32_t version = magic & 0xff;
        size_t head = version == 8 ? 64 : 48;
        if (magic >> 8 != MAGIC || (version != 7 && version != 8))
                return 0;
        if (length < head)
                return head;
        *record = (struct blk_record){.sequence = get32(&fields)};
        record->event.time = get64(&fields);
        record->event.sector = get64(&fields);
        uint32_t size = get32(&fields);
        if (version == 7) {
                action = get32(&fields);
                record->event.pid = get32(&fields);
        } else {
                record->event.pid = get32(&fields);
                action = get64(&fields);
        }
        record->event.sectors = size >> 9;
        record->event.device = get32(&fields);
        record->cpu = get32(&fields);
        record->event.error = (int16_t)get16(&fields);
        size_t pdu = get16(&fields);
        if (length < head + pdu)
                return head + pdu;
        name[0] = '\0';
        decode(record, action, bytes + head, pdu, size, name);
        return head + pdu;
}
