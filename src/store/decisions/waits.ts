/** The queue that a step waits in. Its key has no character that JSON escapes. An index has the same expression. */
export const QUEUE_OF_STEP = `(split_part(split_part(wait, '"hostTurn":"', 2), '"', 1) COLLATE "C")`;

/** The origin of the host that a step waits for. */
export const ORIGIN_OF_STEP = `substr(${QUEUE_OF_STEP}, 1, strpos(${QUEUE_OF_STEP} || ' ', ' ') - 1)`;

/** What a pending step waits for until it is due, in the words of its index; an untried step waits for its start. */
export const WAIT_KIND = `(CASE WHEN signal_name IS NOT NULL THEN 'signal' WHEN attempt_count = 0 THEN 'start' WHEN wait IS NULL THEN 'retry'
  WHEN strpos(wait, '"secretWait":') > 0 THEN 'secret'
  WHEN strpos(wait, '"hostTurn":"') > 0 THEN 'host' WHEN strpos(wait, '"lastPoll":') > 0 THEN 'poll'
  WHEN strpos(wait, '"subRun":') > 0 THEN 'run' ELSE 'delay' END)`;

/** Whether a pending step has no due time because its run was retried and waits for its turn. */
export const HAS_NO_TURN = '(due_at IS NULL AND attempt_count > 0 AND signal_name IS NULL AND wait IS NULL)';
/** For a first step that is due later: whether its run waits for more deliveries until then. */
export const IS_COALESCING = '(SELECT own.deliveries FROM sluice.runs AS own WHERE own.id = steps.run_id) IS NOT NULL';
