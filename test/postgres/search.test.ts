import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SEARCHED_ROWS } from '../../src/store/decisions/lists.ts';
import { uuidOf, uuidRange } from '../../src/store/uuids.ts';
import { flowId, T0 } from '../store/samples.ts';
import { openEmpty, runSql } from './schemas.ts';

const whole = '019aa000-0000-7000-8000-00000000000a';

describe('an id', () => {
  it('is a UUID in its usual form, and no other text that PostgreSQL takes for one', () => {
    expect(uuidOf(whole)).toBe(whole);
    for (const other of [whole.toUpperCase(), `{${whole}}`, whole.replaceAll('-', ''), `${whole} `, 'x', '']) {
      expect(uuidOf(other)).toBeNull();
    }
    expect(uuidOf(null)).toBeNull();
  });

  it('is found by its first eight or more characters', () => {
    const from = '019aa000-0000-0000-0000-000000000000';
    expect(uuidRange('019aa000')).toEqual({ from, to: '019aa000-ffff-ffff-ffff-ffffffffffff' });
    expect(uuidRange('019aa000-0')).toEqual({ from, to: '019aa000-0fff-ffff-ffff-ffffffffffff' });
    expect(uuidRange(whole)).toEqual({ from: whole, to: whole });
    for (const other of ['019aa00', '019aa0000', '019aa000x', `${whole}0`]) expect(uuidRange(other)).toBeUndefined();
  });
});

const schema = `test_${randomUUID().replaceAll('-', '')}`;
const page = { skip: 0, take: 10, includeTotal: true };
const oldRunId = '01000000-0000-7000-8000-000000000002';
const oldDeliveryId = '01000000-0000-7000-8000-000000000001';

let store: Awaited<ReturnType<typeof openEmpty>>;
const runs = async (query: object) => (await store.listRuns({ ...page, ...query })).items.map((item) => item.id);
const texts = ['Grüße', 'GRÜSSE', 'straße', 'ΟΔΟΣ 5', 'Ünïcode', 'İstanbul', '100 %', 'a_b', 'back\\slash', "o'clock"];

beforeAll(async () => {
  store = await openEmpty({ schema });
  const insert = (rows: string, values: unknown[]) =>
    runSql(
      `INSERT INTO ${schema}.runs (id, delivery_id, flow_id, flow_name, flow_version, revision, status, trigger_key,
        trigger_type, started_at, trigger_headers, trigger_body)
      SELECT id, delivery_id, $1, name, '1', 1, 'Running', 'hook', 'webhook', at, '{}', '' FROM (${rows}) AS rows`,
      values,
    );
  const others = [oldRunId, oldDeliveryId, T0 - 1, T0, SEARCHED_ROWS];
  await insert(
    `SELECT $2::uuid AS id, $3::uuid AS delivery_id, 'needle' AS name, $4::bigint AS at
    UNION ALL
    SELECT ('019aa000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, NULL, 'Orders', $5::bigint
    FROM generate_series(1, $6::integer) AS n`,
    [flowId, ...others],
  );
  await insert(
    `SELECT gen_random_uuid() AS id, NULL::uuid AS delivery_id, name, $2::bigint AS at FROM unnest($3::text[]) AS name`,
    ['texts', T0, texts],
  );
  await runSql(`INSERT INTO ${schema}.run_totals VALUES ($1, 'Running', 0, $2)`, [flowId, SEARCHED_ROWS]);
  await runSql(`INSERT INTO ${schema}.run_totals VALUES ($1, 'Running', 7, 1)`, [flowId]);
}, 60_000);
afterAll(() => store.close());

describe('a search', () => {
  it('looks through the newest rows that the other filters leave, and no further', async () => {
    expect(await runs({ search: 'needle', flowId })).toEqual([]);
    expect(await runs({ search: 'ORDERS', flowId })).toHaveLength(10);
  });

  it.each([oldRunId, oldRunId.slice(0, 10), oldRunId.toUpperCase(), oldDeliveryId])(
    'finds a run by its id or its delivery’s, however old: %s',
    async (search) => {
      expect(await runs({ search, status: 'Running' })).toEqual([oldRunId]);
      expect(await runs({ search, status: 'Failed' })).toEqual([]);
      expect(await runs({ search, flowId: 'another flow' })).toEqual([]);
      expect((await store.listRuns({ ...page, search })).total).toBe(1);
    },
  );

  it.each(['0100000', '01000000x', "01000000' OR 1=1 --", '01000000-00000'])(
    'takes no other text for an id: %s',
    async (search) => {
      expect(await runs({ search, flowId })).toEqual([]);
    },
  );

  it.each(texts)('finds a text in any case, as SQLite does: %s', async (text) => {
    const found = async (search: string) => {
      const { items } = await store.listRuns({ ...page, search, flowId: 'texts' });
      return items.map(({ flowName }) => flowName);
    };
    for (const search of [text, text.toLowerCase(), text.toUpperCase(), text.slice(1)]) {
      const expected = texts.filter((each) => each.toLowerCase().includes(search.toLowerCase()));
      expect(new Set(await found(search))).toEqual(new Set(expected));
    }
  });
});

describe('a page from the nearer end', () => {
  const all: string[] = [];
  beforeAll(async () => {
    for (let from = 0; from <= SEARCHED_ROWS; from += 500) {
      all.push(...(await runs({ flowId, skip: from, take: 500 })));
    }
    expect(new Set(all).size).toBe(SEARCHED_ROWS + 1);
  });

  it.each([0, 1, 4_000, 6_000, SEARCHED_ROWS - 3, SEARCHED_ROWS, SEARCHED_ROWS + 5])(
    'is the same after %i',
    async (skip) => {
      expect(await runs({ flowId, skip, take: 7 })).toEqual(all.slice(skip, skip + 7));
    },
  );
});
