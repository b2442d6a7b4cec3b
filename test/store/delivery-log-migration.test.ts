import SqliteDatabase from 'better-sqlite3';
import { expect, test } from 'vitest';
import { createIdSource } from '../../src/flows/ids.ts';
import { roundDuration } from '../../src/store/durations.ts';
import { migrate } from '../../src/store/sqlite/connection.ts';
import { deliveryValues, prepareInsertDelivery, ROW_BYTES } from '../../src/store/sqlite/deliveries.ts';
import { figureOperations } from '../../src/store/sqlite/figures.ts';
import { initial } from '../../src/store/sqlite/migrations/0001-initial.ts';
import { bounds } from '../../src/store/sqlite/migrations/0007-bounds.ts';
import { migrations } from '../../src/store/sqlite/migrations/index.ts';
import { aDelivery, T0 } from './samples.ts';

test('a log that an earlier release kept is counted when it is brought up to date', () => {
  const db = new SqliteDatabase(':memory:');
  migrate(db, [initial]);
  const insert = db.prepare(`
    INSERT INTO deliveries (
      id, received_at, client_ip, mode, rejected, enforced, status_code, reason, violations, body_bytes, processing_ms,
      run_id, used_previous_key, headers, body
    ) VALUES (?, ?, '', 'Enforce', ?, 0, 200, ?, '[]', 3, 0, ?, 0, '{}', ?)`);
  insert.run('1', T0, 0, null, 'run-1', null);
  insert.run('2', T0 + 1, 1, 'ip_denied', null, Buffer.from('abc'));
  insert.run('3', T0 + 60_000, 1, 'ip_denied', null, Buffer.from('de'));
  migrate(db, migrations);

  const minute = T0 / 60_000;
  expect(db.prepare('SELECT minute, reason, rejected, count FROM delivery_counts').raw().all()).toEqual([
    [minute, '', 0, 1],
    [minute, 'ip_denied', 1, 1],
    [minute + 1, 'ip_denied', 1, 1],
  ]);
  const state = db.prepare('SELECT rows, bytes FROM refused_state').raw();
  // An id, the mode, reason, violations and headers, the bytes of the bodies, and what a row takes.
  const texts = '2Enforceip_denied[]{}'.length;
  expect(state.get()).toEqual([2, 2 * (texts + 1024) + 5]);
  const hours = db.prepare('SELECT hour, reason, rejected, count, first_id, last_id FROM delivery_hours').raw();
  expect(hours.all()).toEqual([
    [T0 / 3_600_000, '', 0, 1, '1', '1'],
    [T0 / 3_600_000, 'ip_denied', 1, 2, '2', '3'],
  ]);
  const totals = db.prepare('SELECT reason, rejected, count FROM delivery_totals').raw();
  expect(totals.all()).toEqual([
    ['', 0, 1],
    ['ip_denied', 1, 2],
  ]);
  db.exec("DELETE FROM deliveries WHERE id = '2'");
  expect(state.get()).toEqual([1, texts + 1024 + 2]);
  expect(totals.all()).toEqual([
    ['', 0, 1],
    ['ip_denied', 1, 1],
  ]);
  db.close();
});

test('a part of a minute that an earlier release counted is still counted from its records', () => {
  const db = new SqliteDatabase(':memory:');
  migrate(
    db,
    migrations.filter(({ version }) => version < 6),
  );
  const insert = db.prepare(`
    INSERT INTO deliveries (
      id, received_at, client_ip, mode, rejected, enforced, status_code, violations, body_bytes, processing_ms,
      used_previous_key, headers
    ) VALUES (?, ?, '', 'Enforce', 0, 0, 200, '[]', 3, 0, 0, '{}')`);
  const idAt = createIdSource(() => at);
  let at = T0 - 1;
  for (const ms of [0, 1, 30_000, 30_001, 59_999, 60_000]) {
    at = T0 + ms;
    insert.run(idAt(), at);
  }
  db.exec("INSERT INTO delivery_counts SELECT received_at / 60000, '', 0, count(*) FROM deliveries GROUP BY 1");
  migrate(db, migrations);
  const stats = figureOperations.deliveryStats.prepare(db);
  expect(stats(T0 + 1).total).toBe(5);
  expect(stats(T0 + 30_001).total).toBe(3);
  expect(stats(T0 + 59_999).total).toBe(2);
  db.close();
});

test('runs that an earlier release kept are counted when it is brought up to date', () => {
  const db = new SqliteDatabase(':memory:');
  migrate(
    db,
    migrations.filter(({ version }) => version < 6),
  );
  const insert = db.prepare(`
    INSERT INTO runs (
      id, flow_id, flow_name, flow_version, revision, status, trigger_key, trigger_type, started_at, completed_at,
      trigger_headers, trigger_body
    ) VALUES (?, ?, 'orders', '1', 1, ?, 'hook', 'webhook', ?, ?, '{}', x'')`);
  insert.run('1', 'a', 'Running', T0, null);
  insert.run('2', 'a', 'Succeeded', T0, T0 + 104);
  insert.run('3', 'b', 'Failed', T0, T0 + 3_600_104);
  migrate(db, migrations);

  const hour = T0 / 3_600_000;
  const rowsOf = (table: string) => db.prepare(`SELECT * FROM ${table}`).raw().all();
  expect(rowsOf('run_totals')).toEqual([
    ['a', 'Running', 1],
    ['a', 'Succeeded', 1],
    ['b', 'Failed', 1],
  ]);
  expect(rowsOf('run_starts')).toEqual([
    [hour, 'a', 'Succeeded', 1],
    [hour, 'b', 'Failed', 1],
  ]);
  expect(rowsOf('run_ends')).toEqual([
    [hour, 'a', 'Succeeded', 1],
    [hour + 1, 'b', 'Failed', 1],
  ]);
  expect(rowsOf('run_durations')).toEqual([
    ['', hour, 100, 1],
    ['', hour, 3_600_000, 1],
    ['a', hour, 100, 1],
    ['b', hour, 3_600_000, 1],
  ]);
  db.close();
});

test('rounds a duration as the migration does, up to weeks within five per cent', () => {
  const db = new SqliteDatabase(':memory:');
  migrate(
    db,
    migrations.filter(({ version }) => version < 6),
  );
  const durations = Array.from({ length: 400 }, (_, n) => Math.round(1.06 ** n));
  for (const [n, ms] of durations.entries()) {
    db.prepare(`
      INSERT INTO runs (
        id, flow_id, flow_name, flow_version, revision, status, trigger_key, trigger_type, started_at, completed_at,
        trigger_headers, trigger_body
      ) VALUES (?, ?, 'orders', '1', 1, 'Failed', 'hook', 'webhook', ?, ?, '{}', x'')`).run(
      `${n}`,
      `${n}`,
      T0,
      T0 + ms,
    );
  }
  migrate(db, migrations);
  const find = db.prepare<[string], number>('SELECT duration_ms FROM run_durations WHERE flow_id = ?').pluck();
  for (const [n, ms] of durations.entries()) {
    expect(roundDuration(ms)).toBe(find.get(`${n}`));
    if (ms < 1e9) expect(Math.abs(roundDuration(ms) - ms)).toBeLessThanOrEqual(ms * 0.05);
  }
  db.close();
});

test('counts what a refused or held delivery takes as the migration does', () => {
  const db = new SqliteDatabase(':memory:');
  migrate(db, migrations);
  const refused = aDelivery({
    rejected: true,
    reason: 'ip_denied',
    violations: ['ip_denied'],
    detail: 'not in the list',
  });
  prepareInsertDelivery(db)(deliveryValues(refused), Buffer.from('héllo'));
  const find = db.prepare<[], number>('SELECT kept_bytes FROM deliveries').pluck();
  const counted = find.get();
  const [recount] = /UPDATE deliveries SET kept_bytes = [^;]*;/.exec(bounds.sql) ?? [];
  db.exec(`UPDATE deliveries SET kept_bytes = 0; ${recount}`);
  expect(find.get()).toBe(counted);

  db.exec(
    "INSERT INTO held_deliveries (flow_id, trigger_key, run_id, headers, body) VALUES ('f', 't', 'r', '{}', x'0102')",
  );
  const held = db.prepare<[], number>('SELECT bytes FROM held_state').pluck();
  expect(held.get()).toBe(ROW_BYTES + '{}'.length + 2);
  db.close();
});
