import type { Migration } from './migration.ts';

/** A duration to two significant digits, so that figures over a million runs are read from a few thousand counts. */
const rounded = (ms: string) => `CASE
  WHEN ${ms} < 100 THEN max(${ms}, 0)
  WHEN ${ms} < 1000 THEN (${ms} + 5) / 10 * 10
  WHEN ${ms} < 10000 THEN (${ms} + 50) / 100 * 100
  WHEN ${ms} < 100000 THEN (${ms} + 500) / 1000 * 1000
  WHEN ${ms} < 1000000 THEN (${ms} + 5000) / 10000 * 10000
  ELSE (${ms} + 50000) / 100000 * 100000 END`;

/** The key of an ended run's row in run_hours and in run_ends; `run` is a row or one of a trigger's two. */
const endOf = (run: string) => `coalesce(${run}.completed_at, ${run}.started_at)`;
const startKey = (run: string) => `
  ${run}.started_at / 3600000, ${run}.flow_id, ${run}.status, ${rounded(`(${endOf(run)} - ${run}.started_at)`)}`;
const endKey = (run: string) => `${endOf(run)} / 3600000, ${run}.flow_id, ${run}.status`;

export const figures: Migration = {
  version: 7,
  name: 'figures',
  sql: `
    -- Counts are kept by triggers, so that nothing that writes or deletes can forget to tell.
    -- A flow, trigger or reason that is null stands as ''.

    -- Deliveries by the hour and by all that figures ask for; they outlive the records that they count.
    CREATE TABLE delivery_hours (
      hour INTEGER NOT NULL,
      flow_id TEXT NOT NULL,
      trigger_key TEXT NOT NULL,
      reason TEXT NOT NULL,
      rejected INTEGER NOT NULL,
      count INTEGER NOT NULL,
      -- Of them those that only the previous key could verify.
      previous_key INTEGER NOT NULL,
      PRIMARY KEY (hour, flow_id, trigger_key, reason, rejected)
    ) WITHOUT ROWID;
    INSERT INTO delivery_hours
      SELECT received_at / 3600000, coalesce(flow_id, ''), coalesce(trigger_key, ''), coalesce(reason, ''), rejected,
        count(*), sum(used_previous_key)
      FROM deliveries GROUP BY 1, 2, 3, 4, 5;

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
        new.received_at / 3600000, coalesce(new.flow_id, ''), coalesce(new.trigger_key, ''), coalesce(new.reason, ''),
        new.rejected, 1, new.used_previous_key
      ) ON CONFLICT DO UPDATE SET count = count + 1, previous_key = previous_key + excluded.previous_key;
      INSERT INTO delivery_totals VALUES (coalesce(new.flow_id, ''), coalesce(new.reason, ''), new.rejected, 1)
        ON CONFLICT DO UPDATE SET count = count + 1;
    END;
    CREATE TRIGGER delivery_deleted AFTER DELETE ON deliveries BEGIN
      UPDATE delivery_totals SET count = count - 1
        WHERE flow_id = coalesce(old.flow_id, '') AND reason = coalesce(old.reason, '') AND rejected = old.rejected;
    END;

    -- Runs that ended: by the hour of their start with how long they took, and by the hour of their end.
    CREATE TABLE run_hours (
      hour INTEGER NOT NULL,
      flow_id TEXT NOT NULL,
      status TEXT NOT NULL,
      duration_ms INTEGER NOT NULL,
      count INTEGER NOT NULL,
      PRIMARY KEY (hour, flow_id, status, duration_ms)
    ) WITHOUT ROWID;
    INSERT INTO run_hours SELECT ${startKey('run')}, count(*)
      FROM runs run WHERE status <> 'Running' GROUP BY 1, 2, 3, 4;
    CREATE TABLE run_ends (
      hour INTEGER NOT NULL,
      flow_id TEXT NOT NULL,
      status TEXT NOT NULL,
      count INTEGER NOT NULL,
      PRIMARY KEY (hour, flow_id, status)
    ) WITHOUT ROWID;
    INSERT INTO run_ends SELECT ${endKey('run')}, count(*) FROM runs run WHERE status <> 'Running' GROUP BY 1, 2, 3;

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
      INSERT INTO run_hours VALUES (${startKey('new')}, 1) ON CONFLICT DO UPDATE SET count = count + 1;
      INSERT INTO run_ends VALUES (${endKey('new')}, 1) ON CONFLICT DO UPDATE SET count = count + 1;
    END;
    CREATE TRIGGER run_ended AFTER UPDATE OF status ON runs
      WHEN old.status = 'Running' AND new.status <> 'Running' BEGIN
      INSERT INTO run_hours VALUES (${startKey('new')}, 1) ON CONFLICT DO UPDATE SET count = count + 1;
      INSERT INTO run_ends VALUES (${endKey('new')}, 1) ON CONFLICT DO UPDATE SET count = count + 1;
    END;
    -- A step of it is tried again by hand.
    CREATE TRIGGER run_reopened AFTER UPDATE OF status ON runs
      WHEN old.status <> 'Running' AND new.status = 'Running' BEGIN
      UPDATE run_hours SET count = count - 1 WHERE (hour, flow_id, status, duration_ms) = (${startKey('old')});
      UPDATE run_ends SET count = count - 1 WHERE (hour, flow_id, status) = (${endKey('old')});
    END;

    -- A rare reason of one flow, or its refusals, are found without reading all else that it received. Both indexes hold
    -- rejected deliveries alone, so that clean ones pay nothing for them.
    CREATE INDEX deliveries_by_flow_reason ON deliveries (flow_id, reason, id) WHERE reason IS NOT NULL;
    CREATE INDEX deliveries_by_flow_rejected ON deliveries (flow_id, id) WHERE rejected = 1;

    -- What a filter asks for beside the key stands in the index, so that rows it skips are not read.
    DROP INDEX deliveries_by_flow;
    CREATE INDEX deliveries_by_flow ON deliveries (flow_id, id, rejected);
    DROP INDEX runs_by_flow;
    CREATE INDEX runs_by_flow ON runs (flow_id, started_at, status);
    DROP INDEX runs_by_status;
    CREATE INDEX runs_by_status ON runs (status, started_at, flow_id) WHERE status <> 'Succeeded';
  `,
};
