-- breaking: yes
-- What keeps a job from running and what follows from its end: keys, parents, expiry, limits, holds.
-- A job that uses none of it has no row in any of these tables, and costs what it cost before.

alter table _sloth_queue add column concurrency integer; -- so many jobs run at once; null: no limit
alter table _sloth_queue add column rate integer;        -- so many starts ...
alter table _sloth_queue add column per integer;         -- ... in so many ms
alter table _sloth_queue add column ageing integer;      -- ms of waiting that are worth one step of priority
alter table _sloth_queue add column keep integer default 604800000; -- ms; null: ended jobs stay
alter table _sloth_queue add column paused integer;      -- since when
alter table _sloth_queue add column paused_by text;

-- `parked`: why a queued job is filed nowhere. 1 held, 2 has parents that have not ended, 4 others of its
-- concurrency key run. `extras`: what is kept elsewhere about it. 1 a row in _sloth_extra, 2 it is a parent,
-- 4 something is asked of its attempt, 8 it has a concurrency key, 16 it expires.
alter table _sloth_job add column extras integer not null default 0;
alter table _sloth_job add column unique_key text;       -- queue:key
alter table _sloth_job add column env integer;           -- of a command

-- One live job per key and queue, however it got there and however it ends.
create unique index _sloth_job_key on _sloth_job (unique_key)
where unique_key is not null and state = 0;

create index _sloth_job_parked on _sloth_job (lane, parked, priority, due) where parked > 0 and state = 0;

create index _sloth_job_env on _sloth_job (env) where env is not null;

create table _sloth_extra (
    job          integer primary key,
    expires      integer,
    base         integer,                      -- wall minus elapsed time if that was a duration
    on_interrupt integer not null default 0,   -- 0 retry, 1 hold, 2 fail
    after_failed integer not null default 0,   -- of a parent: 0 cancel, 1 run
    takes        integer not null default 0,   -- 1: the results of its parents are its first arguments
    gate         text,                         -- queue:concurrency key
    gate_limit   integer,
    held         integer,                      -- since when
    held_by      text,
    spent        integer not null default 0    -- attempts before it was last revived
) strict;

-- Jobs that have not ended and expire.
create table _sloth_expiry (
    at  integer not null,
    job integer not null,
    primary key (at, job)
) strict, without rowid;

-- Who waits for whom. `n` is the place of the parent among those of the child.
create table _sloth_edge (
    child  integer not null,
    n      integer not null,
    parent integer not null,
    ended  integer not null default 0,
    primary key (child, n)
) strict, without rowid;

create index _sloth_edge_parent on _sloth_edge (parent, child);

create index _sloth_edge_waits on _sloth_edge (child, parent) where ended = 0;

-- Parents that somebody deleted, until the rota tells their children.
create table _sloth_gone (
    job integer primary key
) strict;

-- Due jobs whose concurrency key is taken, in the order in which they start.
create table _sloth_gated (
    gate     text    not null,
    lane     integer not null,
    priority integer not null,
    due      integer not null,
    id       integer not null,
    primary key (gate, lane, priority, due, id)
) strict, without rowid;

-- The latest starts in queues with a rate.
create table _sloth_start (
    queue integer not null,
    at    integer not null,
    job   integer not null,
    fence integer not null,
    primary key (queue, at, job, fence)
) strict, without rowid;

-- What is asked of running attempts: cancel, send.
create table _sloth_ask (
    n      integer primary key,
    job    integer not null,
    kind   text    not null,
    at     integer not null,
    who    text    not null,
    detail text
) strict;

create index _sloth_ask_job on _sloth_ask (job);

-- Environments of commands; most jobs share one.
create table _sloth_env (
    id   integer primary key,
    text text    not null unique
) strict;

-- So that who completes a job sees by the number of changes that something follows from its end: to have
-- the marks returned would cost every completion two microseconds of forty.
create trigger _sloth_job_ended_marked after update of state on _sloth_job
when new.state > 1 and new.extras > 0 begin
    update _sloth_job set extras = extras where id = new.id;
end;

-- What goes with a job when it is deleted, by us or by anybody else.
create trigger _sloth_job_deleted after delete on _sloth_job begin
    delete from _sloth_event where job = old.id;
    delete from _sloth_running where id = old.id;
end;

create trigger _sloth_job_unfiled after delete on _sloth_job when old.state = 0 begin
    delete from _sloth_ready
    where lane = old.lane and priority = old.priority and due = old.due and id = old.id;
    delete from _sloth_sched where lane = old.lane and due = old.due and id = old.id;
end;

create trigger _sloth_job_extras_deleted after delete on _sloth_job when old.extras > 0 begin
    delete from _sloth_gated where lane = old.lane and priority = old.priority and due = old.due
        and id = old.id and gate = (select gate from _sloth_extra where job = old.id);
    -- It ran or was the next to run: whoever waits for its concurrency key may try again.
    insert into _sloth_ready select lane, priority, due, id from _sloth_gated
    where old.state = 0 and old.parked = 0
        and gate = (select gate from _sloth_extra where job = old.id);
    update _sloth_job set parked = 0
    where old.state = 0 and old.parked = 0 and id in (
        select id from _sloth_gated where gate = (select gate from _sloth_extra where job = old.id));
    delete from _sloth_gated where old.state = 0 and old.parked = 0
        and gate = (select gate from _sloth_extra where job = old.id);
    delete from _sloth_expiry where job = old.id
        and at = (select expires from _sloth_extra where job = old.id);
    delete from _sloth_extra where job = old.id;
    delete from _sloth_ask where job = old.id;
    delete from _sloth_edge where child = old.id;
    insert or ignore into _sloth_gone
    select old.id where exists (select 1 from _sloth_edge where parent = old.id and ended = 0);
end;
