import fc from 'fast-check';
import { expect, test } from 'vitest';
import { storable } from '../../src/model/text.ts';
import { givenForm } from '../../src/store/postgres/arrays.ts';
import { anyCharacter } from '../any-character.ts';
import { runSql } from './schemas.ts';

const types = {
  id: 'uuid',
  name: 'text',
  count: 'bigint',
  share: 'double precision',
  is_kept: 'boolean',
  body: 'bytea',
} as const;

const orNull = <Value>(values: fc.Arbitrary<Value>) => fc.option(values, { nil: null });
const rowsOf = fc.record({
  id: orNull(fc.uuid()),
  name: orNull(
    fc.oneof(
      fc.string({ unit: anyCharacter }),
      fc.constantFrom('', '\0', 'a\0b', '\ud800', 'x\udc00y', 'NULL', '{"a\\"}'),
    ),
  ),
  count: orNull(fc.maxSafeInteger()),
  share: orNull(fc.double({ noNaN: true, noDefaultInfinity: true }).map((share) => share + 0)),
  is_kept: orNull(fc.boolean()),
  body: orNull(fc.uint8Array({ maxLength: 40 })),
});

type Given = Parameters<ReturnType<typeof givenForm>>[1];

async function read(rows: Given) {
  const values: unknown[] = [];
  const given = givenForm([rows])(
    types,
    rows,
    (value) => `$${values.push(typeof value === 'string' ? storable(value) : value)}`,
  );
  const names = Object.keys(types).map((name) => (name === 'body' ? "encode(body, 'hex') AS body" : name));
  const found = await runSql(`SELECT ${names.join(', ')} FROM ${given}`, values);
  return found.map((row) => ({ ...row, count: row.count === null ? null : Number(row.count) }));
}

test('rows arrive as they were given, one or many of them, but for what no text can hold', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(rowsOf, { minLength: 1, maxLength: 5 }), async (rows) => {
      expect(await read(rows)).toEqual(
        rows.map((row) => ({
          ...row,
          name: row.name === null ? null : storable(row.name),
          body: row.body === null ? null : Buffer.from(row.body).toString('hex'),
        })),
      );
    }),
    { numRuns: 100 },
  );
});

test('what a row does not name is null', async () => {
  const [first, second] = await read([{ name: 'a' }, { count: 2 }]);
  expect(first).toEqual({ id: null, name: 'a', count: null, share: null, is_kept: null, body: null });
  expect(second).toEqual({ id: null, name: null, count: 2, share: null, is_kept: null, body: null });
  expect(await read([{ name: 'a' }])).toEqual([first]);
});

test('a statement has one of two texts, whichever of its lists have more rows than one', () => {
  const [one, many] = [[{ name: 'a' }], [{ name: 'a' }, { name: 'b' }]];
  const texts = [
    [one, many],
    [many, one],
    [many, many],
    [one, one],
  ].map((lists) => {
    const form = givenForm(lists);
    return lists.map((rows) => form({ name: 'text' }, rows, () => '$'));
  });
  const [first, second, third, ofOne] = texts;
  expect([second, third]).toEqual([first, first]);
  expect(ofOne).not.toEqual(first);
});
