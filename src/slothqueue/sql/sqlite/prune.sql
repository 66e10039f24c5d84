-- Forgetting what ended long ago.

-- name: ended_after
-- A slice of all jobs, in the order of their ids: done jobs have no index.
select j.id, j.state, j.finished, l.queue, l.kind
from _sloth_job j join _sloth_lane l on l.id = j.lane
where j.id > ?1 order by j.id limit ?2

-- name: is_awaited
-- Whether a job that has not ended takes what this one returned.
select 1 from _sloth_edge e join _sloth_job c on c.id = e.child
where e.parent = ?1 and c.state = 0 limit 1

-- name: delete_ended
delete from _sloth_job where id = ?1 and state > 1

-- name: drop_envs
-- scan: a row per environment, and few jobs differ in it
delete from _sloth_env
where not exists (select 1 from _sloth_job j where j.env = _sloth_env.id and j.env is not null)

-- name: drop_queue_changes
-- scan: a row per change of options
delete from _sloth_queue_change where n <= (select max(n) from _sloth_queue_change) - ?1
