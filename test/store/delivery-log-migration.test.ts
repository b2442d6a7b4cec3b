import SqliteDatabase from 'better-sqlite3';
import { expect, test } from 'vitest';
import { migrate } from '../../src/store/sqlite/migrate.ts';
import { initial } from '../../src/store/sqlite/migrations/0001-initial.ts';
import { migrations } from '../../src/store/sqlite/migrations/index.ts';
import { T0 } from './samples.ts';

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
  expect(state.get()).toEqual([2, 5]);
  db.exec("DELETE FROM deliveries WHERE id = '2'");
  expect(state.get()).toEqual([1, 2]);
  db.close();
});
