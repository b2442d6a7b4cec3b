import type { Database } from 'better-sqlite3';
import SqliteDatabase from 'better-sqlite3';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { removalVerbs } from '../../src/store/decisions/removal.ts';
import { prepareNonces } from '../../src/store/sqlite/acceptance.ts';
import { prepareBatch, type Settled } from '../../src/store/sqlite/batch.ts';
import { migrate } from '../../src/store/sqlite/connection.ts';
import { migrations } from '../../src/store/sqlite/migrations/index.ts';
import { openIndexes, warmIndexes, withIndexing } from '../../src/store/sqlite/nonce-index.ts';
import { membersOf } from '../../src/store/sqlite/port.ts';
import { sentNonce } from '../../src/store/sqlite/sent-acceptance.ts';
import { aNonce } from './samples.ts';

describe('the index of nonces', () => {
  test('takes in what waits once enough has come together, and lets go of it in memory', () => {
    const { claim, batch, indexed, db } = aLedger(50);
    for (let n = 0; n < 300; n += 1) batch([() => claim(`n${n}`)]);
    expect(indexed()).toBeGreaterThan(100);
    const { indexed_to } = db.prepare('SELECT indexed_to FROM nonce_index_state').get() as { indexed_to: number };
    expect(indexed_to).toBeGreaterThan(100);
    const again = batch(Array.from({ length: 300 }, (_, n) => () => claim(`n${n}`)));
    expect(again.map(answerOf)).toEqual(Array.from({ length: 300 }, (_, n) => `n${n}`));
  });

  test('takes in about as many as come, so that no batch has to do much more than others', () => {
    const { claim, batch, indexed } = aLedger(200);
    const grown = Array.from({ length: 18 }, (_, part) => {
      const before = Number(indexed());
      for (let n = 0; n < 50; n += 1) batch([() => claim(`n${part * 50 + n}`)]);
      return Number(indexed()) - before;
    });
    expect(Math.max(...grown)).toBeLessThan(110);
    expect(indexed()).toBeGreaterThan(600);
  });

  test('lets a thirty-second of what is alive come together, so that its pages take several at once', () => {
    const { claim, batch, db } = aLedger(5);
    const indexedTo = db.prepare<[], number>('SELECT indexed_to FROM nonce_index_state').pluck();
    const rounds = new Set<number | undefined>();
    for (let n = 0; n < 3200; n += 1) {
      batch([() => claim(`n${n}`)]);
      if (n >= 1600) rounds.add(indexedTo.get());
    }
    expect(rounds.size).toBeGreaterThan(10);
    expect(rounds.size).toBeLessThan(60);
  });

  test('clears out what was purged', () => {
    const { claim, batch, purge, indexed } = aLedger(20);
    for (let n = 0; n < 200; n += 1) batch([() => claim(`old${n}`, { expiresAt: 10 })]);
    batch([() => purge(11)]);
    for (let n = 0; n < 3000; n += 1) batch([() => claim(`new${n}`, { now: 11 })]);
    expect(indexed()).toBeLessThanOrEqual(3000);
    expect(indexed()).toBeGreaterThan(2000);
  });

  test('leaves what was purged alone until it is a quarter of what is alive', () => {
    const { claim, batch, purge, indexed } = aLedger(20);
    for (let n = 0; n < 100; n += 1) batch([() => claim(`old${n}`, { expiresAt: 10 })]);
    for (let n = 0; n < 300; n += 1) batch([() => claim(`middle${n}`, { expiresAt: 20 })]);
    for (let n = 0; n < 600; n += 1) batch([() => claim(`new${n}`)]);
    batch([() => purge(11)]);
    for (let n = 0; n < 100; n += 1) batch([() => claim(`later${n}`, { now: 11 })]);
    expect(indexed()).toBeGreaterThan(1000);
    batch([() => purge(21)]);
    for (let n = 0; n < 100; n += 1) batch([() => claim(`last${n}`, { now: 21 })]);
    expect(indexed()).toBeLessThanOrEqual(800);
  });

  test('is read ahead whole, in parts, once it is large', () => {
    const { claim, batch, indexed, db } = aLedger(50);
    for (let n = 0; n < 300; n += 1) batch([() => claim(`n${n}`)]);
    const parts = [...warmIndexes(db, () => db, 299)];
    expect(parts.reduce((sum, entries) => sum + entries, 0)).toBe(indexed());
    expect(Math.max(...parts)).toBeLessThan(20);
    expect([...warmIndexes(db, () => db, 300)]).toEqual([]);
  });

  test('finds what came after all older ones were indexed and purged, over a restart', () => {
    const ledger = aLedger(5);
    for (let n = 0; n < 40; n += 1) ledger.batch([() => ledger.claim(`old${n}`, { expiresAt: 10 })]);
    ledger.batch([() => ledger.purge(11)]);
    const { batch, claim } = ledger.restart();
    batch([() => claim('new', { now: 11 })]);
    const after = ledger.restart();
    expect(after.batch([() => after.claim('new', { now: 11 })]).map(answerOf)).toEqual(['new']);
  });

  test('finds what came while a part of the older ones was indexed, over a restart at any time', () => {
    const ledger = aLedger(5);
    let { batch, claim } = ledger;
    const names: string[] = [];
    for (let n = 0; n < 400; n += 1) {
      names.push(`n${n}`);
      batch([() => claim(`n${n}`)]);
      // Batches without nonces advance the indexing too.
      for (let idle = 0; idle < n % 3; idle += 1) batch([() => undefined]);
      if (n % 7 !== 0) continue;
      ({ batch, claim } = ledger.restart());
      expect(batch(names.map((name) => () => claim(name))).map(answerOf)).toEqual(names);
    }
  });

  test('holds nothing in memory of batches that were lost', () => {
    const { db, claim, batch, breakCommit } = aLedger(10);
    for (let n = 0; n < 50; n += 1) batch([() => claim(`lost${n}`), breakCommit]);
    let changes = 0;
    const count = () => {
      changes = Number(db.prepare('SELECT total_changes()').pluck().get());
    };
    batch([count]);
    const before = changes;
    batch([count]);
    expect(changes - before).toBe(0);
  });

  test('whatever fails, expires, is purged or restarted: a nonce is known exactly while its row is alive', () => {
    const claimed = fc.record({ nonce: fc.nat(11), lifetime: fc.integer({ min: 1, max: 6 }), throws: fc.boolean() });
    const turn = fc.oneof(
      { weight: 8, arbitrary: fc.record({ claims: fc.array(claimed, { minLength: 1, maxLength: 4 }) }) },
      {
        weight: 2,
        arbitrary: fc.record({ claims: fc.array(claimed, { minLength: 1, maxLength: 4 }), isLost: fc.constant(true) }),
      },
      { weight: 2, arbitrary: fc.record({ passes: fc.integer({ min: 1, max: 4 }) }) },
      { weight: 1, arbitrary: fc.record({ purges: fc.constant(true) }) },
      { weight: 1, arbitrary: fc.record({ restarts: fc.constant(true) }) },
    );
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 9 }), fc.array(turn, { maxLength: 60 }), (least, turns) => {
        play(least, turns);
      }),
      { numRuns: 300 },
    );
  });
});

interface Turn {
  readonly claims?: readonly { nonce: number; lifetime: number; throws: boolean }[];
  /** The commit fails. */
  readonly isLost?: boolean;
  readonly passes?: number;
  readonly purges?: boolean;
  readonly restarts?: boolean;
}

/** Plays turns against the ledger and a map, and compares every answer. */
function play(least: number, turns: readonly Turn[]): void {
  const ledger = aLedger(least);
  let { claim, batch, purge } = ledger;
  let now = 1;
  let alive = new Map<number, { runId: string; expiresAt: number }>();
  let count = 0;
  for (const { claims = [], isLost = false, passes = 0, purges, restarts } of turns) {
    now += passes;
    if (restarts) ({ claim, batch, purge } = ledger.restart());
    if (purges) batch([() => purge(now)]);
    if (claims.length === 0) continue;

    const expected: unknown[] = [];
    const after = new Map(alive);
    const jobs = claims.map(({ nonce, lifetime, throws }) => {
      count += 1;
      const runId = `run ${count}`;
      const known = after.get(nonce);
      const isKnown = known !== undefined && known.expiresAt > now;
      expected.push(throws || isLost ? 'failed' : isKnown ? known.runId : undefined);
      if (!throws && !isKnown) after.set(nonce, { runId, expiresAt: now + lifetime });
      return () => {
        const value = claim(`n${nonce}`, { runId, now, expiresAt: now + lifetime });
        if (throws) throw new Error('the rest of the acceptance failed');
        return value;
      };
    });
    expect(
      batch(isLost ? [...jobs, ledger.breakCommit] : jobs)
        .slice(0, jobs.length)
        .map(answerOf),
    ).toEqual(expected);
    if (!isLost) alive = after;
  }
  ledger.db.close();
}

/** Nonces in a new database, claimed in batches as the writer runs them. */
function aLedger(least: number) {
  const db: Database = new SqliteDatabase(':memory:');
  onTestFinished(() => {
    db.close();
  });
  migrate(db, migrations);
  db.exec('CREATE TABLE unsound (n REFERENCES flows (id) DEFERRABLE INITIALLY DEFERRED)');
  const restart = () => {
    const indexes = openIndexes(db, least);
    const nonces = prepareNonces(db, indexes.nonces);
    const purge = membersOf(removalVerbs({})).purgeNonces.prepare(db);
    return {
      batch: withIndexing(db, prepareBatch(db, 'BEGIN IMMEDIATE'), indexes),
      /** The run that the nonce started earlier; undefined if the nonce is new. */
      claim(value: string, { runId = value, now = 1, expiresAt = 1e6 } = {}) {
        const [flowId, triggerKey] = ['flow', 'trigger'];
        const trigger = { flowId, triggerKey };
        const claim = aNonce({ value, arrivedAt: now, expiresAt });
        const call = { ...trigger, nonce: sentNonce(trigger, claim) };
        const known = nonces.find(call, []);
        if (known === undefined) nonces.keep(call, runId, []);
        return known?.runId;
      },
      purge: (now: number) => purge({ now, limit: 1000 }),
    };
  };
  return {
    ...restart(),
    restart,
    db,
    breakCommit: () => db.exec("INSERT INTO unsound VALUES ('nothing')"),
    indexed: () => db.prepare('SELECT count(*) FROM nonce_index').pluck().get(),
  };
}

function answerOf(settled: Settled): unknown {
  return settled.isFulfilled ? settled.value : 'failed';
}
