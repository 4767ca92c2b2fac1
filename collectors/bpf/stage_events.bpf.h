#pragma once
/*
 * Single events, for who wants to see each (STREAM_WHAT_EVENTS): the fields of struct stage_event. Included once, by stages.bpf.c.
 *
 * Not asked for, they cost a load and a branch. rwbs is spelled out by watopd, from the operation and its flags.
 */
#include "stage_state.bpf.h"

/* sample/stage.h */
enum { STAGE_Q, STAGE_G, STAGE_I, STAGE_D, STAGE_C, STAGE_M, STAGE_F, STAGE_R, STAGE_X, STAGE_A, STAGE_P, STAGE_U, STAGE_UT, STAGE_MERGE };
enum { STAGE_PASSTHROUGH = 64, STAGE_OF_REQUEST = 128 };

struct place_of_event {
        u64 sector, other, key;
        u32 bytes, device, other_device, opf;
        s32 error;
        u32 flags;
};

inline_ bool events_wanted(void)
{
        return READ(control.what) & STREAM_WHAT_EVENTS;
}

static __attribute__((noinline)) int say(u32 action, u64 now, const struct place_of_event *place)
{
        u64 ids = bpf_get_current_pid_tgid();
        struct stage_record *record = reserve();
        if (!record || !place)
                return 0;
        record->tid = (u32)ids;
        record->tgid = (u32)(ids >> 32);
        record->event.time = now;
        record->event.sector = place->sector;
        record->event.other = place->other;
        record->event.key = place->key;
        record->event.sectors = place->bytes >> 9;
        record->event.other_device = place->other_device;
        record->event.error = place->error;
        record->event.action = (u8)action;
        record->event.cpu = bpf_get_smp_processor_id();
        bpf_get_current_comm(record->event.comm, sizeof record->event.comm);
        *(u32 *)record->event.rwbs = place->opf;
        publish(record, first_word(RECORD_EVENT, 0, direction_of(place->opf), flags_of(place->opf) | place->flags, place->device));
        return 0;
}

inline_ void say_bio(u32 action, u64 now, struct bio *bio, u64 other, u32 other_device, s32 error)
{
        struct place_of_event place = {.sector = bio->bi_iter.bi_sector, .bytes = bio->bi_iter.bi_size, .opf = bio->bi_opf,
                .device = device_of(bio), .other = other, .other_device = other_device, .error = error};
        say(action, now, &place);
}

inline_ void say_request(u32 action, u64 now, struct request *request, u32 bytes, s32 error)
{
        u32 opf = request->cmd_flags;
        struct place_of_event place = {.sector = ~request->__sector ? request->__sector : 0, .bytes = bytes, .opf = opf,
                .device = device_of_request(request), .key = key_of(request) * settings.secret >> 16, .error = error,
                .flags = STAGE_OF_REQUEST | (is_passthrough(opf) ? STAGE_PASSTHROUGH : 0)};
        say(action, now, &place);
}
