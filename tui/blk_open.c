/*
 * watop blk, live: bios that are open, as the tracer tells of them once a second (stage_record_open): the oldest of each device, and where
 * it is.
 *
 * A merged bio's request is not known before it ends, so nothing is said of where that is. That a bio has no request yet means a wait for
 * one only where the driver takes requests.
 */
#include "tui/blk.h"
#include "tui/blk_system.h"

/* Told once a second; a round or two may be late. */
#define AGAIN_NS UINT64_C(2500000000)

bool blk_still_open(const struct blk_report *report, const struct blk_open *open)
{
        return report->last <= open->seen + AGAIN_NS;
}

enum blk_place blk_open_where(const struct stage_record *record)
{
        if (record->bio.d != 0)
                return BLK_WITH_DEVICE;
        if (record->bio.m != 0)
                return BLK_MERGED;
        if (record->bio.i != 0)
                return BLK_IN_QUEUE;
        if (record->bio_flags & STAGE_PREFLUSH)
                return BLK_FLUSHES;
        if (record->bio.g != 0)
                return BLK_HELD;
        return blk_device_has_queue(record->device) ? BLK_NO_REQUEST : BLK_IN_DRIVER;
}

static const struct { const char *code, *words; } places[BLK_PLACES] = {
        [BLK_WITH_DEVICE] = {"device", "with the device"},
        [BLK_IN_QUEUE] = {"queue", "in the scheduler's queue"},
        [BLK_MERGED] = {"merged", "merged into another's request"},
        [BLK_HELD] = {"request", "has a request that was not issued"},
        [BLK_FLUSHES] = {"flush", "waits for a flush of the write cache"},
        [BLK_NO_REQUEST] = {"tag", "waits for a free request"},
        [BLK_IN_DRIVER] = {"driver", "in a driver that takes bios"},
};

const char *blk_open_code(enum blk_place place) { return places[place].code; }
const char *blk_open_words(enum blk_place place) { return places[place].words; }
