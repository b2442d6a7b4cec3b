// The steps of `roundDuration`. Repeated here because a migration must not change with the code; a test compares both.
const durationSteps = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000].flatMap((power) => [
  { below: 50 * power, step: 2 * power },
  { below: 100 * power, step: 5 * power },
  { below: 200 * power, step: 10 * power },
]);
const longestStep = 1_000_000_000;

const rounded = (ms: string) => `CASE WHEN ${ms} < 20 THEN max(${ms}, 0)
  ${durationSteps.map(({ below, step }) => `WHEN ${ms} < ${below} THEN (${ms} + ${Math.floor(step / 2)}) / ${step} * ${step}`).join('\n  ')}
  ELSE ${ms} / ${longestStep} * ${longestStep} END`;

const endedAt = 'coalesce(completed_at, started_at)';
/** Fills the counts from the records that there are. */
export const countRecords = `
  INSERT INTO delivery_hours
    SELECT received_at / 3600000, coalesce(flow_id, ''), coalesce(trigger_key, ''), mode, coalesce(reason, ''), violations,
      rejected, redelivered_from IS NOT NULL, count(*), sum(used_previous_key), min(received_at), min(id), max(id)
    FROM deliveries GROUP BY 1, 2, 3, 4, 5, 6, 7, 8;
  INSERT INTO delivery_totals
    SELECT coalesce(flow_id, ''), coalesce(reason, ''), rejected, count(*) FROM deliveries GROUP BY 1, 2, 3;
  INSERT INTO run_totals SELECT flow_id, status, count(*) FROM runs GROUP BY 1, 2;
  INSERT INTO run_starts
    SELECT started_at / 3600000, flow_id, status, count(*) FROM runs WHERE status <> 'Running' GROUP BY 1, 2, 3;
  INSERT INTO run_ends
    SELECT ${endedAt} / 3600000, flow_id, status, count(*) FROM runs WHERE status <> 'Running' GROUP BY 1, 2, 3;
  INSERT INTO run_durations
    SELECT flow_id, started_at / 3600000, ${rounded(`(${endedAt} - started_at)`)}, count(*)
    FROM runs WHERE status <> 'Running' GROUP BY 1, 2, 3;
  INSERT INTO run_durations SELECT '', hour, duration_ms, sum(count) FROM run_durations GROUP BY 2, 3;
`;

export const figures = {
  version: 6,
  name: 'figures',
  sql: `
    -- A flow, trigger or reason that is null stands as ''.

    -- Deliveries by the hour and by all that figures ask for; they outlive the records that they count.
    CREATE TABLE delivery_hours (
      hour INTEGER NOT NULL,
      flow_id TEXT NOT NULL,
      trigger_key TEXT NOT NULL,
      mode TEXT NOT NULL,
      reason TEXT NOT NULL,
      violations TEXT NOT NULL,
      rejected INTEGER NOT NULL,
      redelivered INTEGER NOT NULL,
      count INTEGER NOT NULL,
      -- Of them those that only the previous key could verify.
      previous_key INTEGER NOT NULL,
      first_at INTEGER NOT NULL,
      first_id TEXT NOT NULL,
      last_id TEXT NOT NULL,
      PRIMARY KEY (hour, flow_id, trigger_key, mode, reason, violations, rejected, redelivered)
    ) WITHOUT ROWID;

    -- How many records there are: what a page's total is read from.
    CREATE TABLE delivery_totals (
      flow_id TEXT NOT NULL,
      reason TEXT NOT NULL,
      rejected INTEGER NOT NULL,
      count INTEGER NOT NULL,
      PRIMARY KEY (flow_id, reason, rejected)
    ) WITHOUT ROWID;

    -- Counts rise at the end of a batch, and a record may be deleted before: lowering must not need the row.
    CREATE TRIGGER delivery_deleted AFTER DELETE ON deliveries BEGIN
      INSERT INTO delivery_totals VALUES (coalesce(old.flow_id, ''), coalesce(old.reason, ''), old.rejected, -1)
        ON CONFLICT DO UPDATE SET count = count - 1;
    END;

    -- Runs that ended, by the hour of their start and by that of their end.
    CREATE TABLE run_starts (
      hour INTEGER NOT NULL,
      flow_id TEXT NOT NULL,
      status TEXT NOT NULL,
      count INTEGER NOT NULL,
      PRIMARY KEY (hour, flow_id, status)
    ) WITHOUT ROWID;
    CREATE TABLE run_ends (
      hour INTEGER NOT NULL,
      flow_id TEXT NOT NULL,
      status TEXT NOT NULL,
      count INTEGER NOT NULL,
      PRIMARY KEY (hour, flow_id, status)
    ) WITHOUT ROWID;

    -- How long they took, by the hour of their start. The flow '' is all of them: a month of every flow would else be
    -- hundreds of thousands of rows.
    CREATE TABLE run_durations (
      flow_id TEXT NOT NULL,
      hour INTEGER NOT NULL,
      duration_ms INTEGER NOT NULL,
      count INTEGER NOT NULL,
      PRIMARY KEY (flow_id, hour, duration_ms)
    ) WITHOUT ROWID;

    CREATE TABLE run_totals (
      flow_id TEXT NOT NULL,
      status TEXT NOT NULL,
      count INTEGER NOT NULL,
      PRIMARY KEY (flow_id, status)
    ) WITHOUT ROWID;

    CREATE TRIGGER run_deleted AFTER DELETE ON runs BEGIN
      INSERT INTO run_totals VALUES (old.flow_id, old.status, -1) ON CONFLICT DO UPDATE SET count = count - 1;
    END;

    -- The writer counts those itself: SQLite journals each statement that has a trigger.
    DROP TRIGGER refused_added;

    ${countRecords}

    -- A rare reason of one flow, or its refusals, are found without reading all else that it received. Both indexes hold
    -- rejected deliveries alone, so that clean ones pay nothing for them.
    CREATE INDEX deliveries_by_flow_reason ON deliveries (flow_id, reason, id) WHERE reason IS NOT NULL;
    CREATE INDEX deliveries_by_flow_rejected ON deliveries (flow_id, id) WHERE rejected = 1;

    -- What a filter asks for stands in the index, so that rows that are skipped are not read: a page after 900 000
    -- accepted deliveries took 360 ms and takes 15.
    DROP INDEX deliveries_rejected;
    CREATE INDEX deliveries_by_rejected ON deliveries (rejected, id);
    DROP INDEX deliveries_by_flow;
    CREATE INDEX deliveries_by_flow ON deliveries (flow_id, id, rejected);
    DROP INDEX runs_by_flow;
    CREATE INDEX runs_by_flow ON runs (flow_id, started_at, status);
    DROP INDEX runs_by_status;
    CREATE INDEX runs_by_status ON runs (status, started_at, flow_id) WHERE status <> 'Succeeded';
  `,
};
