-- The statements about jobs on SQLite. Parameters by position: they are the hot path.

-- name: insert_job
-- A trigger files it under ready or sched, so one statement is the whole transaction.
insert into _sloth_job
    (lane, state, priority, due, base, created, claimed, finished, fence, worker,
     max_attempts, timeout, payload)
values (?1, 0, ?2, ?3, ?4, ?5, ?5, ?5, ?5 * 1000, ?5 * 1000, ?6, ?7, ?8)

-- name: insert_jobs
-- The same for a list of payloads, as JSON: half the time of binding them one by one. Their ids are
-- chosen here, because nothing else tells them.
insert into _sloth_job
    (lane, state, priority, due, base, created, claimed, finished, fence, worker,
     max_attempts, timeout, payload, id)
select ?1, 0, ?2, ?3, ?4, ?5, ?5, ?5, ?5 * 1000, ?5 * 1000, ?6, ?7, value, key + ?9
from json_each(?8)

-- name: last_job
select coalesce(max(id), 0) from _sloth_job

-- name: glance
-- All that a claim wants to know before it locks: is anything ready, when is the next one due, how long
-- do leases of this queue last, and is there anything that keeps it from starting more.
select (select 1 from _sloth_ready where lane = ?1 limit 1),
       (select due from _sloth_sched where lane = ?1 order by due limit 1),
       q.lease, q.paused,
       case when q.concurrency is null and q.rate is null then null else q.id end
from _sloth_lane l join _sloth_queue q on q.id = l.queue where l.id = ?1

-- name: due_jobs
select lane, priority, due, id from _sloth_sched
where lane = ?1 and due <= ?2 order by due, id limit ?3

-- name: insert_ready
insert into _sloth_ready (lane, priority, due, id) values (?1, ?2, ?3, ?4)

-- name: insert_sched
insert into _sloth_sched (lane, priority, due, id, base) values (?1, ?2, ?3, ?4, ?5)

-- name: unsched
delete from _sloth_sched where lane = ?1 and priority = ?2 and due = ?3 and id = ?4

-- name: heads
-- With all that a claim wants to know beside: when the next scheduled job is due, how long leases of
-- this queue last, and whether it has limits.
select r.lane, r.priority, r.due, r.id, j.attempts, j.fence, j.timeout, j.env, j.extras, j.payload,
       (select due from _sloth_sched where lane = ?1 order by due limit 1), q.lease,
       case when q.concurrency is null and q.rate is null then null else q.id end, q.ageing
from _sloth_lane l
cross join _sloth_queue q on q.id = l.queue
cross join _sloth_ready r
cross join _sloth_job j on j.id = r.id
where l.id = ?1 and q.paused is null and r.lane = ?1
order by r.priority, r.due, r.id limit ?2

-- name: level_heads
-- The same of one priority.
select r.lane, r.priority, r.due, r.id, j.attempts, j.fence, j.timeout, j.env, j.extras, j.payload,
       (select due from _sloth_sched where lane = ?1 order by due limit 1), q.lease,
       case when q.concurrency is null and q.rate is null then null else q.id end, q.ageing
from _sloth_lane l
cross join _sloth_queue q on q.id = l.queue
cross join _sloth_ready r
cross join _sloth_job j on j.id = r.id
where l.id = ?1 and q.paused is null and r.lane = ?1 and r.priority = ?3
order by r.due, r.id limit ?2

-- name: next_level
select min(priority) from _sloth_ready where lane = ?1 and priority > ?2

-- name: unready
delete from _sloth_ready where lane = ?1 and priority = ?2 and due = ?3 and id = ?4

-- name: drop_orphans
-- What a foreign program left behind when it deleted jobs.
delete from _sloth_ready
where lane = ?1 and not exists (select 1 from _sloth_job j where j.id = _sloth_ready.id)

-- name: unready_upto
delete from _sloth_ready where lane = ?1 and (priority, due, id) <= (?2, ?3, ?4)

-- name: insert_running
insert into _sloth_running (id, lane, attempt, fence, holder, worker, claimed, lease, until)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)

-- name: run_heads
-- All of one lane on the same terms: the same rows as `heads` reads, in one statement.
insert into _sloth_running (id, lane, attempt, fence, holder, worker, claimed, lease, until)
select r.id, r.lane, j.attempts + 1, max(j.fence + 1, ?3), ?4, ?5, ?6, ?7, ?8
from _sloth_ready r join _sloth_job j on j.id = r.id
where r.lane = ?1 order by r.priority, r.due, r.id limit ?2

-- name: holds
select 1 from _sloth_running where id = ?1 and fence = ?2 and holder = ?3

-- name: end_lease
delete from _sloth_running where id = ?1 and fence = ?2 and holder = ?3

-- name: extend_lease
update _sloth_running set until = ?4 where id = ?1 and fence = ?2 and holder = ?3

-- name: hand_over
update _sloth_running set holder = ?4 where id = ?1 and fence = ?2 and holder = ?3

-- name: complete
-- The attempt succeeded, if the lease is still the latest; a trigger ends the lease. The error of an
-- earlier attempt stays: it is the last there was.
update _sloth_job
set state = 2, claimed = ?2, finished = ?3, attempts = ?4, fence = ?5, worker = ?6, result = ?8,
    message = ?9
where id = ?1
  and exists (select 1 from _sloth_running where id = ?1 and fence = ?5 and holder = ?7)

-- name: marks
select extras from _sloth_job where id = ?1

-- name: complete_many
-- The same for many leases of one holder, given as {"id": fence}.
update _sloth_job
set state = 2, claimed = r.claimed, finished = ?2, attempts = r.attempt, fence = r.fence,
    worker = r.worker
from json_each(?1) e join _sloth_running r on r.id = cast(e.key as integer)
where _sloth_job.id = r.id and r.fence = e.value and r.holder = ?3
returning id, extras

-- name: end_attempt
-- The attempt ended in another way: again later, or for good.
update _sloth_job
set state = ?2, claimed = ?3, finished = ?4, attempts = ?5, fence = ?6, worker = ?7,
    result = coalesce(?8, result), error = coalesce(?9, error), due = ?10, base = ?11,
    message = coalesce(?12, message)
where id = ?1

-- name: job_policy
-- What is needed to judge the end of an attempt.
select j.lane, j.priority, j.due, j.attempts, coalesce(j.max_attempts, q.max_attempts), q.base, q.cap,
       j.extras, x.on_interrupt, x.expires
from _sloth_job j join _sloth_lane l on l.id = j.lane join _sloth_queue q on q.id = l.queue
left join _sloth_extra x on x.job = j.id
where j.id = ?1

-- name: last_event
select n, kind from _sloth_event where job = ?1 order by n desc limit 1

-- name: last_progress
select reason, detail from _sloth_event where job = ?1 and kind = 'progress'
order by n desc limit 1

-- name: change_event
update _sloth_event set at = ?3, reason = ?4, detail = ?5 where job = ?1 and n = ?2

-- name: insert_event
insert into _sloth_event (job, n, kind, at, attempt, worker, reason, detail)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)

-- name: holders
-- scan: one row per live lease
-- Everybody who holds a lease, with what is needed to ask the kernel about them.
-- And the workers in whose name they do.
select h.id, h.kind, h.lock, h.device, h.inode, h.boot, h.machine, h.pid, h.started, h.pidns, h.label,
       h.worker
from _sloth_holder h
where h.id in (select holder from _sloth_running union select worker from _sloth_running)

-- name: first_expiry
-- scan: one row per live lease
-- Of leases given in this boot: what others mean by their awake time nobody here can tell.
select min(r.until) from _sloth_running r join _sloth_holder h on h.id = r.holder where h.boot = ?1

-- name: leases_of
-- scan: one row per live lease
select id, lane, attempt, fence, holder, worker, claimed, until from _sloth_running
where ?1 is null or holder = ?1

-- name: silent_leases
-- scan: one row per live lease
-- Leases that ran out in this boot.
select r.id, r.lane, r.attempt, r.fence, r.holder, r.worker, r.claimed, r.until
from _sloth_running r join _sloth_holder h on h.id = r.holder
where r.until < ?1 and h.boot = ?2

-- name: job
select j.id, q.name, l.kind, l.task,
       case when r.id is null then j.state else 1 end,
       -j.priority, j.due, j.created,
       coalesce(r.claimed, case when j.attempts > 0 then j.claimed end),
       case when j.state > 1 then j.finished end,
       coalesce(r.attempt, j.attempts), coalesce(j.max_attempts, q.max_attempts), j.timeout,
       h.label, j.payload, j.result, j.error, j.message,
       j.parked, j.unique_key, x.expires, x.on_interrupt, x.gate, x.gate_limit
from _sloth_job j
join _sloth_lane l on l.id = j.lane
join _sloth_queue q on q.id = l.queue
left join _sloth_running r on r.id = j.id
left join _sloth_extra x on x.job = j.id
left join _sloth_holder h
    on h.id = coalesce(r.worker, case when j.attempts > 0 then j.worker end)
where j.id = ?1

-- name: job_state
-- A cheap look for those who wait: the state of a job, running told as queued.
select state from _sloth_job where id = ?1

-- name: states_of
-- scan: as many as the caller names
select case when r.id is null then j.state else 1 end, count(*)
from json_each(?1) e join _sloth_job j on j.id = e.value left join _sloth_running r on r.id = j.id
group by 1

-- name: live_of
-- scan: as many as the caller names
select e.value from json_each(?1) e join _sloth_job j on j.id = e.value
where j.state = 0 order by e.key limit ?2

-- name: is_running
select 1 from _sloth_running where id = ?1

-- name: running_ids
-- scan: one row per live lease
select r.id from _sloth_running r join _sloth_lane l on l.id = r.lane
where (?1 is null or l.queue = ?1) order by r.claimed, r.id limit ?2

-- name: is_ready
select 1 from _sloth_ready where lane = ?1 and priority = ?2 and due = ?3 and id = ?4

-- name: ready_keys
select priority, due, id from _sloth_ready where lane = ?1 order by priority, due, id limit ?2

-- name: later_keys
select due, priority, id from _sloth_sched where lane = ?1 and due > ?2 order by due, id limit ?3

-- name: parked_keys
select priority, due, id from _sloth_job
where lane = ?1 and parked > 0 and state = 0 and parked & ?3 > 0
order by parked, priority, due, id limit ?2

-- name: ended_ids
-- scan: backwards from the latest, and no further than the limit asks
select j.id from _sloth_job j join _sloth_lane l on l.id = j.lane
where j.state > 1 and (?1 is null or j.state = ?1) and (?2 is null or l.queue = ?2)
order by j.id desc limit ?3

-- name: dead_keys
select finished, id from _sloth_job
where lane = ?1 and state = ?2 and state > 2 order by finished desc limit ?3

-- name: count_ready
select count(*) from _sloth_ready where lane = ?1

-- name: count_sched
select count(*), coalesce(sum(due > ?2), 0) from _sloth_sched where lane = ?1

-- name: any_gated
select 1 from _sloth_job where lane = ?1 and parked > 0 and parked = 4 and state = 0 limit 1

-- name: count_parked
select coalesce(sum(parked & 2 > 0), 0), coalesce(sum(parked & 1 > 0), 0), count(*)
from _sloth_job where lane = ?1 and parked > 0 and state = 0

-- name: count_running
-- scan: one row per live lease
select lane, 1, count(*) from _sloth_running group by lane

-- name: count_ended
-- scan: nothing counts jobs as they end, so that they end sooner
select lane, state, count(*) from _sloth_job where state > 1 group by lane, state

-- name: record
-- The packed part of the history.
select j.state, j.created, j.claimed, j.finished, j.attempts, j.message, hj.label,
       r.attempt, r.claimed, hr.label
from _sloth_job j
left join _sloth_running r on r.id = j.id
left join _sloth_holder hj on hj.id = j.worker
left join _sloth_holder hr on hr.id = r.worker
where j.id = ?1

-- name: events
select e.n, e.kind, e.at, e.attempt, h.label, e.reason, e.detail
from _sloth_event e left join _sloth_holder h on h.id = e.worker
where e.job = ?1 order by e.n

-- name: sched_behind
-- scan: the clock was set back or the machine restarted, which is rare
-- Delays that were asked for under a later clock, or in what is the future by now. A waiting job's
-- `finished` is the moment when its delay began.
select s.lane, s.priority, s.due, s.id, s.base, j.finished
from _sloth_sched s join _sloth_job j on j.id = s.id
where s.base > ?1 or (s.base is not null and j.finished > ?2)

-- name: rebase_job
update _sloth_job set due = ?2, base = ?3, finished = ?4 where id = ?1
