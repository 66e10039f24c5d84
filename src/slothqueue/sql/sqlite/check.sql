-- What must hold of every store at every moment. Each statement finds what does not: the id of a job, or
-- another short name for the place, in one column. Parked jobs are waited for by somebody else than a
-- claim, so they are filed nowhere.

-- name: check_unfiled
-- scan: looks at everything there is
select id from _sloth_job where state = 0 and parked = 0
except select id from _sloth_ready
except select id from _sloth_sched
except select id from _sloth_running

-- name: check_filed_twice
-- scan: looks at everything there is
select id from (select id from _sloth_ready union all select id from _sloth_sched
                union all select id from _sloth_running)
group by id having count(*) > 1

-- name: check_filed_for_nothing
-- scan: looks at everything there is
select f.id from (select id from _sloth_ready union all select id from _sloth_sched) f
where not exists (select 1 from _sloth_job j where j.id = f.id)

-- name: check_filed_though_over
-- scan: looks at everything there is
select f.id from (select id from _sloth_ready union all select id from _sloth_sched
                  union all select id from _sloth_running) f
join _sloth_job j on j.id = f.id where j.state > 1

-- name: check_filed_elsewhere
-- scan: looks at everything there is
select j.id from (select id, lane from _sloth_ready union all select id, lane from _sloth_sched
                  union all select id, lane from _sloth_running) f
join _sloth_job j on j.id = f.id where j.lane <> f.lane

-- name: check_filed_though_parked
-- scan: looks at everything there is
select f.id from (select id from _sloth_ready union all select id from _sloth_sched
                  union all select id from _sloth_running) f
join _sloth_job j on j.id = f.id where j.parked > 0

-- name: check_parked_for_nothing
-- scan: looks at everything there is
-- Held by nobody, after no parent that is still to end, kept back by no key.
select j.id from _sloth_job j where j.parked > 0 and j.state = 0 and (
    j.parked & 1 and not exists (select 1 from _sloth_extra where job = j.id and held is not null)
    or j.parked & 2 and not exists (select 1 from _sloth_edge where child = j.id and ended = 0)
    or j.parked & 4 and j.id not in (select id from _sloth_gated))

-- name: check_waits_unparked
-- scan: looks at everything there is
select e.child from _sloth_edge e join _sloth_job c on c.id = e.child
where e.ended = 0 and c.state = 0 and c.parked & 2 = 0

-- name: check_waits_in_vain
-- scan: looks at everything there is
select e.child from _sloth_edge e left join _sloth_job p on p.id = e.parent
where e.ended = 0 and (p.state > 1 or p.id is null and e.parent not in (select job from _sloth_gone))

-- name: check_expires_though_over
-- scan: looks at everything there is
select e.job from _sloth_expiry e left join _sloth_job j on j.id = e.job
where j.id is null or j.state > 1

-- name: check_asked_of_nothing
-- scan: looks at everything there is
select job from _sloth_ask except select id from _sloth_running

-- name: check_running_nothing
-- scan: looks at everything there is
select id from _sloth_running except select id from _sloth_job

-- name: check_held_by_nobody
-- scan: looks at everything there is
select id from _sloth_running
where holder not in (select id from _sloth_holder) or worker not in (select id from _sloth_holder)

-- name: check_state
-- scan: looks at everything there is
select id from _sloth_job where state not in (0, 2, 3, 4)

-- name: check_lane_of_job
-- scan: looks at everything there is
select id from _sloth_job where lane not in (select id from _sloth_lane)

-- name: check_queue_of_lane
-- scan: looks at everything there is
select 'lane ' || id from _sloth_lane where queue not in (select id from _sloth_queue)

-- name: check_event_numbers
-- scan: looks at everything there is
-- The first event, n = 1, is told by the columns of the job.
select job from _sloth_event group by job having min(n) <> 2 or max(n) <> count(*) + 1

-- name: check_events_of_nothing
-- scan: looks at everything there is
select job from _sloth_event except select id from _sloth_job

-- name: check_payload
-- scan: looks at everything there is
select id from _sloth_job where not json_valid(payload)

-- name: check_name_of_store
select '_sloth_meta' where not exists (select 1 from _sloth_meta where key = 'store')

-- name: schema_objects
select name, sql from sqlite_master where name like '\_sloth\_%' escape '\' and sql is not null

-- name: other_tables
select count(*) from sqlite_master where type = 'table' and name not like '\_sloth\_%' escape '\'

-- name: newest_job
-- When the job of the highest id was made, by the clock of then.
select created from _sloth_job where id = (select max(id) from _sloth_job)
