-- What keeps a queued job from running, and what follows when it ends.

-- name: insert_job_with
-- A job that has something special about it; one that is parked is not filed.
insert into _sloth_job
    (lane, state, priority, due, base, created, claimed, finished, fence, worker,
     max_attempts, timeout, payload, parked, extras, unique_key, env)
values (?1, 0, ?2, ?3, ?4, ?5, ?5, ?5, ?5 * 1000, ?5 * 1000, ?6, ?7, ?8, ?9, ?10, ?11, ?12)

-- name: insert_extra
insert into _sloth_extra
    (job, expires, base, on_interrupt, after_failed, takes, gate, gate_limit, held, held_by)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
on conflict (job) do nothing

-- name: job_with_key
select id from _sloth_job where unique_key = ?1 and state = 0 and unique_key is not null

-- name: known
-- All that a change of a job wants to know of it.
select j.id, j.lane, j.priority, j.due, j.base,
       case when r.id is null then j.state else 1 end,
       j.attempts, j.parked, j.extras, j.unique_key, j.max_attempts, q.max_attempts,
       x.expires, x.on_interrupt, x.after_failed, x.takes, x.gate, x.gate_limit, x.held, x.held_by,
       coalesce(x.spent, 0)
from _sloth_job j
join _sloth_lane l on l.id = j.lane
join _sloth_queue q on q.id = l.queue
left join _sloth_extra x on x.job = j.id
left join _sloth_running r on r.id = j.id
where j.id = ?1

-- name: park
update _sloth_job set parked = ?2 where id = ?1

-- name: mark
update _sloth_job set extras = extras | ?2 where id = ?1

-- name: unmark
update _sloth_job set extras = extras & ~?2 where id = ?1

-- name: set_spent
update _sloth_extra set spent = ?2 where job = ?1

-- name: set_held
update _sloth_extra set held = ?2, held_by = ?3 where job = ?1

-- name: end_queued
-- A job that does not run comes to its end. What it said or failed with before stays.
update _sloth_job set state = ?2, finished = ?3, parked = 0, message = ?4 where id = ?1

-- name: revive_job
update _sloth_job
set state = 0, due = ?2, base = null, finished = ?2, max_attempts = ?3, message = null
where id = ?1

-- name: edit_job
update _sloth_job
set lane = ?2, priority = ?3, due = ?4, base = ?5, max_attempts = ?6, timeout = ?7, payload = ?8,
    env = ?9, unique_key = ?10, parked = ?11, finished = ?12
where id = ?1

-- name: editable
select lane, priority, due, base, max_attempts, timeout, payload, env, unique_key, finished
from _sloth_job where id = ?1

-- name: insert_env
insert into _sloth_env (text) values (?1) on conflict (text) do nothing

-- name: env_id
select id from _sloth_env where text = ?1

-- name: env_text
select text from _sloth_env where id = ?1

-- name: env_of
select e.text from _sloth_job j join _sloth_env e on e.id = j.env where j.id = ?1

-- ---- parents ------------------------------------------------------------------------------------

-- name: parent_states
-- scan: as many as the caller names
select e.value, j.state from json_each(?1) e left join _sloth_job j on j.id = e.value order by e.key

-- name: mark_parents
update _sloth_job set extras = extras | 2
where id in (select value from json_each(?1)) and extras & 2 = 0

-- name: waits_for
-- scan: those that the caller names, and whom they wait for
-- Whether one of these jobs is that job, or waits for it.
with recursive up (id) as (
    select value from json_each(?1)
    union
    select e.parent from up join _sloth_edge e on e.child = up.id where e.ended = 0
)
select 1 from up where id = ?2

-- name: insert_edge
insert into _sloth_edge (child, n, parent, ended) values (?1, ?2, ?3, ?4)

-- name: move_edges
update _sloth_edge set parent = ?2 where parent = ?1 and ended = 0

-- name: end_edges
update _sloth_edge set ended = 1 where parent = ?1 and ended = 0

-- name: wait_again
-- Those of its parents that are live now: whoever was revived before it is waited for.
update _sloth_edge
set ended = case when exists (select 1 from _sloth_job p where p.id = parent and p.state = 0)
                 then 0 else 1 end
where child = ?1

-- name: still_waits
select 1 from _sloth_edge where child = ?1 and ended = 0 limit 1

-- name: doomed_children
-- Those that are to be cancelled with their parent.
select distinct j.id, j.extras
from _sloth_edge e join _sloth_job j on j.id = e.child join _sloth_extra x on x.job = j.id
where e.parent = ?1 and e.ended = 0 and j.state = 0 and x.after_failed = 0

-- name: free_children
-- Those that waited for this one and wait for no other any more; to be asked before its edges end.
select distinct j.id, j.parked, j.lane, j.priority, j.due, j.base
from _sloth_edge e join _sloth_job j on j.id = e.child
where e.parent = ?1 and j.state = 0 and j.parked & 2 > 0
  and not exists (
      select 1 from _sloth_edge w where w.child = e.child and w.ended = 0 and w.parent <> ?1)

-- name: parents_of
select parent from _sloth_edge where child = ?1 order by n

-- name: children_of
select distinct child from _sloth_edge where parent = ?1

-- name: results_of_parents
select e.parent, p.state, p.result
from _sloth_edge e left join _sloth_job p on p.id = e.parent where e.child = ?1 order by e.n

-- name: pending_parents
select e.parent, p.state, r.id
from _sloth_edge e left join _sloth_job p on p.id = e.parent
left join _sloth_running r on r.id = e.parent
where e.child = ?1 and e.ended = 0 group by e.parent order by min(e.n) limit ?2

-- name: count_pending_parents
select count(distinct parent) from _sloth_edge where child = ?1 and ended = 0

-- name: gone_parents
-- scan: empty, but for parents that somebody deleted just now
select job from _sloth_gone order by job limit ?1

-- name: forget_gone
delete from _sloth_gone where job = ?1

-- ---- expiry -------------------------------------------------------------------------------------

-- name: insert_expiry
insert into _sloth_expiry (at, job) values (?1, ?2) on conflict do nothing

-- name: drop_expiry
delete from _sloth_expiry where at = ?1 and job = ?2

-- name: next_expiry
select e.at from _sloth_expiry e
where not exists (select 1 from _sloth_running r where r.id = e.job) order by e.at limit 1

-- name: expired
select e.job from _sloth_expiry e
where e.at <= ?1 and not exists (select 1 from _sloth_running r where r.id = e.job)
order by e.at limit ?2

-- name: expiry_behind
-- scan: the clock was set back or the machine restarted, which is rare
select x.job, x.expires, x.base, e.at from _sloth_expiry e join _sloth_extra x on x.job = e.job
where x.base > ?1

-- name: rebase_expiry
update _sloth_extra set expires = ?2, base = ?3 where job = ?1

-- ---- limits -------------------------------------------------------------------------------------

-- name: room
-- How many more jobs of this queue may run, and how many more may start now.
select q.concurrency - (
           select count(*) from _sloth_running r
           where r.lane in (select id from _sloth_lane where queue = q.id)),
       q.rate - (select count(*) from _sloth_start s where s.queue = q.id and s.at > ?2 - q.per),
       q.rate, q.per
from _sloth_queue q where q.id = ?1

-- name: nth_start
-- When the oldest of the latest n starts was.
select at from _sloth_start where queue = ?1 order by at desc limit 1 offset ?2

-- name: insert_start
insert into _sloth_start (queue, at, job, fence) values (?1, ?2, ?3, ?4) on conflict do nothing

-- name: drop_starts
delete from _sloth_start where queue = ?1 and at <= ?2

-- name: starts_ahead
-- scan: a row per queue
-- Whether there is a start later than this: the clock was set back since.
select 1 from _sloth_queue q
where q.rate is not null and exists (select 1 from _sloth_start s where s.queue = q.id and s.at > ?1)

-- name: future_starts
update or replace _sloth_start set at = ?1 where at > ?1

-- name: queue_running
-- scan: one row per live lease
select r.id from _sloth_running r
where r.lane in (select id from _sloth_lane where queue = ?1) order by r.id limit ?2

-- name: gate_running
-- scan: one row per live lease
select r.id from _sloth_running r join _sloth_extra x on x.job = r.id
where x.gate = ?1 order by r.id limit ?2

-- name: insert_gated
insert into _sloth_gated (gate, lane, priority, due, id) values (?1, ?2, ?3, ?4, ?5)

-- name: drop_gated
delete from _sloth_gated where gate = ?1 and lane = ?2 and priority = ?3 and due = ?4 and id = ?5

-- name: next_gated_lane
select min(lane) from _sloth_gated where gate = ?1 and lane > ?2

-- name: next_gated
select lane, priority, due, id from _sloth_gated
where gate = ?1 and lane = ?2 order by priority, due, id limit ?3

-- ---- asked of a running attempt -----------------------------------------------------------------

-- name: insert_ask
insert into _sloth_ask (job, kind, at, who, detail) values (?1, ?2, ?3, ?4, ?5)

-- name: asked_cancel
select who, detail from _sloth_ask where job = ?1 and kind = 'cancel'
order by cast(detail as integer), n limit 1

-- name: asks_of
-- scan: what is asked of running attempts just now
select a.n, a.job, a.kind, a.at, a.who, a.detail
from _sloth_ask a join _sloth_running r on r.id = a.job where r.worker = ?1 order by a.n

-- name: orphan_asks
-- scan: what is asked of running attempts just now
select a.job, r.holder, r.worker from _sloth_ask a join _sloth_running r on r.id = a.job
where a.kind = 'cancel'

-- name: take_ask
delete from _sloth_ask where n = ?1

-- name: drop_asks
delete from _sloth_ask where job = ?1
