#pragma once
/*
 * Between the files of the tracefs source. tracefs_format.c and tracefs_page.c are pure parsers: bytes in, values out, nothing believed.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sample/stage_record.h"

/* ---- tracefs_format.c: what the kernel says of its own layout ------------------------------------------------------------------------ */

/* Fields of events that somebody uses here, by their names in the format files. */
enum tracefs_field { FIELD_TYPE, FIELD_PID, FIELD_DEV, FIELD_SECTOR, FIELD_SECTORS, FIELD_RWBS, FIELD_COMM, FIELD_ERROR, FIELD_NEW_SECTOR,
        FIELD_OLD_DEV, FIELD_OLD_SECTOR, FIELD_REQUESTS, FIELD_COMMAND, FIELD_FD, FIELD_RESULT, FIELD_COUNT };

struct tracefs_place {
        uint16_t offset, size;        /* size 0: there is no such field */
        bool is_signed;
};
struct tracefs_format {
        uint16_t id;
        struct tracefs_place field[FIELD_COUNT];
};
/* events/GROUP/NAME/format. 0 or -EBADMSG. */
int tracefs_parse_format(const char *text, size_t length, struct tracefs_format *);

struct tracefs_layout {
        struct tracefs_place time, commit, data; /* data.size: room for events in a page */
};
/* events/header_page. 0 or -EBADMSG. */
int tracefs_parse_header(const char *text, size_t length, struct tracefs_layout *);

/* per_cpu/cpuN/stats: events that were overwritten before they were read; events that never got in, of which no page tells. */
void tracefs_parse_stats(const char *text, size_t length, uint64_t *overwritten, uint64_t *refused);

/* ---- tracefs_page.c: a page of the ring buffer --------------------------------------------------------------------------------------- */

struct tracefs_page {
        const uint8_t *bytes;
        size_t at, end;
        uint64_t time;                /* of the event that tracefs_page_next gave last */
        uint64_t missed;              /* events that are missing before this page; with has_missed and 0: it is not known how many */
        bool has_missed;
        bool damaged;                 /* the rest could not be understood */
};
/* bytes are kept by pointer. 0 or -EBADMSG. */
int tracefs_page_begin(struct tracefs_page *, const struct tracefs_layout *, const uint8_t *bytes, size_t size);
/* The next event's data; NULL at the end. */
const uint8_t *tracefs_page_next(struct tracefs_page *, size_t *length);

enum tracefs_kind { POINT_BLOCK, POINT_ENTER, POINT_EXIT };
/* One of the events that are looked for. */
struct tracefs_point {
        const char *group, *name;
        uint8_t what;                 /* STREAM_WHAT_x that wants it, any of them */
        uint8_t kind;                 /* tracefs_kind */
        uint8_t action;               /* stage_action; sync_call */
        bool of_request;
};
/* The bytes that an event of this kind must have for tracefs_decode to find everything; 0 = a field is missing, it cannot be used. */
size_t tracefs_least(const struct tracefs_point *, const struct tracefs_format *);
/* A block event of at least tracefs_least bytes, at a time. False: its letters say no operation. */
bool tracefs_decode(const struct tracefs_point *, const struct tracefs_format *, const uint8_t *event, size_t length, uint64_t time,
        struct stage_record *);
/* A number in an event (the place is within it: tracefs_least); 0 when there is no such field. */
uint64_t tracefs_number(const uint8_t *event, struct tracefs_place);

/* ---- tracefs_calls.c: calls that wait until data is safe, from their two ends ----------------------------------------------------- */

struct tracefs_calls;
int tracefs_calls_new(struct tracefs_calls **);
void tracefs_calls_free(struct tracefs_calls *);
/* A drain begins: so many looks at /proc as one of them may take. */
void tracefs_calls_round(struct tracefs_calls *);
/* Events are missing: calls whose beginning was seen before are not believed. */
void tracefs_calls_lost(struct tracefs_calls *);
/* fd < 0: the call has none. */
void tracefs_calls_enter(struct tracefs_calls *, uint32_t tid, uint8_t call, int64_t fd, uint64_t time);
enum { CALLS_RECORDS = 3 };
/* Its records, at most CALLS_RECORDS: names that were not told before (RECORD_NAME), then the call (RECORD_SYNC). 0: its beginning was
 * not seen. */
size_t tracefs_calls_exit(struct tracefs_calls *, uint32_t tid, uint8_t call, int64_t result, uint64_t time, struct stage_record *out);
/* Everything up to now was fed: files of calls that go on are looked at while they do. */
void tracefs_calls_settle(struct tracefs_calls *);
/* The process of a thread: asked once in a while. A thread that is gone is its own process: most of those that end at once are. */
uint32_t tracefs_calls_process(struct tracefs_calls *, uint32_t tid, bool *kernel);

/* ---- tracefs.c, for tests and benches ------------------------------------------------------------------------------------------------ */

struct tracefs;
void tracefs_limit(struct tracefs *, size_t kib);      /* buffer per CPU at the next attachment; 0: as usual */
const char *tracefs_instance(const struct tracefs *);  /* its name, "" = none */
uint64_t tracefs_damaged(const struct tracefs *);      /* pages and events that could not be understood */
