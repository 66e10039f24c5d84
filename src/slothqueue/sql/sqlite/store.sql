-- The store itself: its names, its queues, its holders.

-- name: get_meta
select value from _sloth_meta where key = ?1

-- name: set_meta
insert into _sloth_meta (key, value) values (?1, ?2)
on conflict (key) do update set value = excluded.value

-- name: queue
select id, max_attempts, base, cap, lease, concurrency, rate, per, ageing, keep
from _sloth_queue where name = ?1

-- name: insert_queue
insert into _sloth_queue
    (name, max_attempts, base, cap, lease, concurrency, rate, per, ageing, keep, created)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)

-- name: update_queue
update _sloth_queue
set max_attempts = ?2, base = ?3, cap = ?4, lease = ?5, concurrency = ?6, rate = ?7, per = ?8,
    ageing = ?9, keep = ?10
where id = ?1

-- name: pause_queue
update _sloth_queue set paused = ?2, paused_by = ?3 where id = ?1

-- name: queues
-- scan: a row per queue
select id, name, paused, paused_by, max_attempts, base, cap, lease, concurrency, rate, per, ageing, keep
from _sloth_queue order by name

-- name: record_queue_change
insert into _sloth_queue_change (queue, at, detail) values (?1, ?2, ?3)

-- name: queue_changes
-- scan: a row per change of options
select at, detail from _sloth_queue_change where queue = ?1 order by n

-- name: lane
select id from _sloth_lane where queue = ?1 and kind = ?2 and task = ?3

-- name: insert_lane
insert into _sloth_lane (queue, kind, task) values (?1, ?2, ?3)

-- name: lanes
-- scan: a row per queue and task
select l.id, q.id, q.name, l.kind, l.task
from _sloth_lane l join _sloth_queue q on q.id = l.queue order by l.id

-- name: insert_holder
insert into _sloth_holder
    (id, worker, kind, label, lock, device, inode, boot, machine, pid, started, pidns, since, tells)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
on conflict (id) do nothing

-- name: live_workers
-- scan: a row per holder
select id, kind, lock, device, inode, boot, machine, pid, started, pidns, label, worker, since, tells
from _sloth_holder where ended is null

-- name: tell_holder
update _sloth_holder set tells = ?2 where id = ?1

-- name: end_holder
update _sloth_holder set ended = ?2 where id = ?1 and ended is null

-- name: drop_ended
-- scan: a row per holder
-- Workers of long ago: the history of older jobs then no longer names them.
delete from _sloth_holder where ended < ?1

-- name: drop_helper
-- A child or a shim that holds nothing is nobody's history: attempts name the worker.
delete from _sloth_holder where id = ?1 and worker <> id
  and not exists (select 1 from _sloth_running where holder = ?1)
