import type { Migration } from './migration.ts';

/** Steps of 2, 5 and 10 hundredths of a power of ten, from 20, 50 and 100 of them on: 35 values for each digit. */
const roundings = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000].flatMap((power) => [
  { below: 50 * power, step: 2 * power },
  { below: 100 * power, step: 5 * power },
  { below: 200 * power, step: 10 * power },
]);

/** A duration within five per cent, so that those of a million runs are told by a few thousand counts. */
const rounded = (ms: string) =>
  `CASE WHEN ${ms} < 20 THEN max(${ms}, 0)
  ${roundings.map(({ below, step }) => `WHEN ${ms} < ${below} THEN (${ms} + ${step / 2}) / ${step} * ${step}`).join('\n  ')}
  ELSE ${ms} / 1000000000 * 1000000000 END`.replaceAll('.5)', ')');

/** Keys of the rows that count an ended run; `run` is a row or one of a trigger's two. */
const endOf = (run: string) => `coalesce(${run}.completed_at, ${run}.started_at)`;
const durationKey = (run: string, flowId: string) => `
  ${flowId}, ${run}.started_at / 3600000, ${rounded(`(${endOf(run)} - ${run}.started_at)`)}`;
const startKey = (run: string) => `${run}.started_at / 3600000, ${run}.flow_id, ${run}.status`;
const endKey = (run: string) => `${endOf(run)} / 3600000, ${run}.flow_id, ${run}.status`;

const countEnd = `
  INSERT INTO run_durations VALUES (${durationKey('new', 'new.flow_id')}, 1) ON CONFLICT DO UPDATE SET count = count + 1;
  INSERT INTO run_durations VALUES (${durationKey('new', "''")}, 1) ON CONFLICT DO UPDATE SET count = count + 1;
  INSERT INTO run_starts VALUES (${startKey('new')}, 1) ON CONFLICT DO UPDATE SET count = count + 1;
  INSERT INTO run_ends VALUES (${endKey('new')}, 1) ON CONFLICT DO UPDATE SET count = count + 1;`;

export const figures: Migration = {
  version: 6,
  name: 'figures',
  sql: `
    -- Counts are kept by triggers, so that nothing that writes or deletes can forget to tell.
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
    INSERT INTO delivery_hours
      SELECT received_at / 3600000, coalesce(flow_id, ''), coalesce(trigger_key, ''), mode, coalesce(reason, ''),
        violations, rejected, redelivered_from IS NOT NULL, count(*), sum(used_previous_key), min(received_at), min(id),
        max(id)
      FROM deliveries GROUP BY 1, 2, 3, 4, 5, 6, 7, 8;

    -- How many records there are: what a page's total is read from.
    CREATE TABLE delivery_totals (
      flow_id TEXT NOT NULL,
      reason TEXT NOT NULL,
      rejected INTEGER NOT NULL,
      count INTEGER NOT NULL,
      PRIMARY KEY (flow_id, reason, rejected)
    ) WITHOUT ROWID;
    INSERT INTO delivery_totals
      SELECT coalesce(flow_id, ''), coalesce(reason, ''), rejected, count(*) FROM deliveries GROUP BY 1, 2, 3;

    CREATE TRIGGER delivery_added AFTER INSERT ON deliveries BEGIN
      INSERT INTO delivery_hours VALUES (
        new.received_at / 3600000, coalesce(new.flow_id, ''), coalesce(new.trigger_key, ''), new.mode,
        coalesce(new.reason, ''), new.violations, new.rejected, new.redelivered_from IS NOT NULL, 1,
        new.used_previous_key, new.received_at, new.id, new.id
      ) ON CONFLICT DO UPDATE SET count = count + 1, previous_key = previous_key + excluded.previous_key,
        first_at = min(first_at, excluded.first_at), first_id = min(first_id, excluded.first_id),
        last_id = max(last_id, excluded.last_id);
      INSERT INTO delivery_totals VALUES (coalesce(new.flow_id, ''), coalesce(new.reason, ''), new.rejected, 1)
        ON CONFLICT DO UPDATE SET count = count + 1;
    END;
    CREATE TRIGGER delivery_deleted AFTER DELETE ON deliveries BEGIN
      UPDATE delivery_totals SET count = count - 1
        WHERE flow_id = coalesce(old.flow_id, '') AND reason = coalesce(old.reason, '') AND rejected = old.rejected;
    END;

    -- Runs that ended, by the hour of their start and by that of their end.
    CREATE TABLE run_starts (
      hour INTEGER NOT NULL,
      flow_id TEXT NOT NULL,
      status TEXT NOT NULL,
      count INTEGER NOT NULL,
      PRIMARY KEY (hour, flow_id, status)
    ) WITHOUT ROWID;
    INSERT INTO run_starts SELECT ${startKey('run')}, count(*) FROM runs run WHERE status <> 'Running' GROUP BY 1, 2, 3;
    CREATE TABLE run_ends (
      hour INTEGER NOT NULL,
      flow_id TEXT NOT NULL,
      status TEXT NOT NULL,
      count INTEGER NOT NULL,
      PRIMARY KEY (hour, flow_id, status)
    ) WITHOUT ROWID;
    INSERT INTO run_ends SELECT ${endKey('run')}, count(*) FROM runs run WHERE status <> 'Running' GROUP BY 1, 2, 3;

    -- How long they took, by the hour of their start. The flow '' is all of them: a month of every flow would else be
    -- hundreds of thousands of rows.
    CREATE TABLE run_durations (
      flow_id TEXT NOT NULL,
      hour INTEGER NOT NULL,
      duration_ms INTEGER NOT NULL,
      count INTEGER NOT NULL,
      PRIMARY KEY (flow_id, hour, duration_ms)
    ) WITHOUT ROWID;
    INSERT INTO run_durations SELECT ${durationKey('run', 'run.flow_id')}, count(*)
      FROM runs run WHERE status <> 'Running' GROUP BY 1, 2, 3;
    INSERT INTO run_durations SELECT '', hour, duration_ms, sum(count) FROM run_durations GROUP BY 2, 3;

    CREATE TABLE run_totals (
      flow_id TEXT NOT NULL,
      status TEXT NOT NULL,
      count INTEGER NOT NULL,
      PRIMARY KEY (flow_id, status)
    ) WITHOUT ROWID;
    INSERT INTO run_totals SELECT flow_id, status, count(*) FROM runs GROUP BY 1, 2;

    CREATE TRIGGER run_added AFTER INSERT ON runs BEGIN
      INSERT INTO run_totals VALUES (new.flow_id, new.status, 1) ON CONFLICT DO UPDATE SET count = count + 1;
    END;
    CREATE TRIGGER run_moved AFTER UPDATE OF status ON runs WHEN new.status <> old.status BEGIN
      UPDATE run_totals SET count = count - 1 WHERE flow_id = old.flow_id AND status = old.status;
      INSERT INTO run_totals VALUES (new.flow_id, new.status, 1) ON CONFLICT DO UPDATE SET count = count + 1;
    END;
    CREATE TRIGGER run_deleted AFTER DELETE ON runs BEGIN
      UPDATE run_totals SET count = count - 1 WHERE flow_id = old.flow_id AND status = old.status;
    END;
    CREATE TRIGGER run_added_ended AFTER INSERT ON runs WHEN new.status <> 'Running' BEGIN
      ${countEnd}
    END;
    CREATE TRIGGER run_ended AFTER UPDATE OF status ON runs
      WHEN old.status = 'Running' AND new.status <> 'Running' BEGIN
      ${countEnd}
    END;
    -- A step of it is tried again by hand.
    CREATE TRIGGER run_reopened AFTER UPDATE OF status ON runs
      WHEN old.status <> 'Running' AND new.status = 'Running' BEGIN
      UPDATE run_durations SET count = count - 1
        WHERE (flow_id, hour, duration_ms) IN (VALUES (${durationKey('old', 'old.flow_id')}), (${durationKey('old', "''")}));
      UPDATE run_starts SET count = count - 1 WHERE (hour, flow_id, status) = (${startKey('old')});
      UPDATE run_ends SET count = count - 1 WHERE (hour, flow_id, status) = (${endKey('old')});
    END;

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
