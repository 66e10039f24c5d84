-- breaking: yes
-- The patient queue. Tables `_sloth_*` are ours and may change; nothing else in the file is touched.
-- Moments (`created`, `due`, `at`, ...) are milliseconds since 1970 UTC. Awake time is milliseconds of
-- the boot of the holder.

create table _sloth_meta (
    key   text primary key,
    value text not null
) strict, without rowid;

create table _sloth_queue (
    id           integer primary key,
    name         text    not null unique,
    lease        integer,            -- ms of awake time; null: as long as the holder lives
    max_attempts integer not null,
    base         real    not null,   -- attempt n is tried again after min(cap, base ** n) seconds
    cap          integer not null,   -- ms
    created      integer not null
) strict;

-- Every change of a queue's options: who reads `4` today may want to know that it was `9` yesterday.
create table _sloth_queue_change (
    n      integer primary key,
    queue  integer not null,
    at     integer not null,
    detail text    not null
) strict;

-- A lane is what one claim looks at: the jobs of one queue that the same workers can run. A worker
-- without task x never walks past the jobs of task x.
create table _sloth_lane (
    id    integer primary key,
    queue integer not null,
    kind  integer not null,          -- 0 payload, 1 command, 2 task
    task  text    not null,
    unique (queue, kind, task)
) strict;

-- The record of a job, written at enqueue and when an attempt ends. `claimed`, `finished`, `fence` and
-- `worker` are written with stand-ins of their final width, so that the last update does not move the
-- row. A job is running while it has a row in _sloth_running.
create table _sloth_job (
    id           integer primary key,
    lane         integer not null,
    state        integer not null,   -- 0 queued or running, 2 done, 3 failed, 4 cancelled
    priority     integer not null,   -- negated: small is early
    due          integer not null,
    base         integer,            -- wall minus elapsed time when a delay was asked for
    created      integer not null,
    claimed      integer not null,
    finished     integer not null,
    attempts     integer not null default 0,
    fence        integer not null,
    worker       integer not null,
    max_attempts integer,            -- null: the queue's
    timeout      integer,            -- ms of awake time
    parked       integer not null default 0, -- not filed by the triggers: whoever wrote it does that
    payload      text    not null,
    result       text,
    error        text,
    message      text
) strict;

-- Dead letters and cancelled jobs. Those that are done have no index: they are most, and it would cost
-- an eighth of the speed of every claim and complete.
create index _sloth_job_dead on _sloth_job (lane, state, finished) where state > 2;

-- Due jobs in the order in which they start.
create table _sloth_ready (
    lane     integer not null,
    priority integer not null,
    due      integer not null,
    id       integer not null,
    primary key (lane, priority, due, id)
) strict, without rowid;

-- Jobs for later, moved to _sloth_ready when due: a claim never walks past them.
create table _sloth_sched (
    lane     integer not null,
    due      integer not null,
    id       integer not null,
    priority integer not null,
    base     integer,
    primary key (lane, due, id)
) strict, without rowid;

create trigger _sloth_job_ready after insert on _sloth_job
when new.due <= new.created and new.state = 0 and new.parked = 0 begin
    insert into _sloth_ready values (new.lane, new.priority, new.due, new.id);
end;

create trigger _sloth_job_sched after insert on _sloth_job
when new.due > new.created and new.state = 0 and new.parked = 0 begin
    insert into _sloth_sched values (new.lane, new.due, new.id, new.priority, new.base);
end;

-- One row per live lease.
create table _sloth_running (
    id      integer primary key,     -- of the job
    lane    integer not null,
    attempt integer not null,
    fence   integer not null,
    holder  integer not null,
    worker  integer not null,
    claimed integer not null,
    lease   integer,                 -- its length, ms of awake time; null: while the holder lives
    until   integer                  -- its end, awake time of the holder's boot
) strict;

create trigger _sloth_job_ended after update of state on _sloth_job when new.state > 1 begin
    delete from _sloth_running where id = new.id;
end;

-- Every process that holds leases, or held some: `worker` is who started it (itself, for a worker).
create table _sloth_holder (
    id      integer primary key,     -- random
    worker  integer not null,
    kind    text    not null,        -- worker, child, shim
    label   text    not null,        -- host:pid
    lock    text    not null,        -- the name of the file that it locks while it lives
    device  integer not null,
    inode   integer not null,
    boot    text    not null,
    machine text    not null,
    pid     integer not null,
    started integer not null,        -- start time of the process, in the kernel's own count
    pidns   integer not null,
    since   integer not null,
    ended   integer,
    tells   text                     -- what a worker says of itself, JSON
) strict;

create index _sloth_holder_live on _sloth_holder (worker) where ended is null;

-- History that the job's own columns do not tell. The first event, `enqueued`, is n = 1 and derived.
create table _sloth_event (
    job     integer not null,
    n       integer not null,
    kind    text    not null,
    at      integer not null,
    attempt integer,
    worker  integer,
    reason  text,
    detail  text,
    primary key (job, n)
) strict, without rowid;
