import { expect, it } from 'vitest';
import { outline, type Schema } from '../../../src/features/api-docs/outline.ts';

const named: Record<string, Schema> = {
  Run: { properties: { id: { type: 'string', format: 'uuid' } }, required: ['id'] },
};

it.each<[rule: string, schema: Schema, written: string]>([
  ['a named schema by what it holds', { $ref: '#/components/schemas/Run' }, '{\n  id: GUID\n}'],
  ['a list by its items', { items: { type: 'string' } }, '[ string ]'],
  ['one of several', { anyOf: [{ type: 'string', format: 'date-time' }, { type: 'null' }] }, 'time | null'],
  [
    'a field that may be absent, and what is said about one',
    {
      properties: { a: { type: 'integer', description: 'Of all.' }, b: { type: 'boolean' } },
      required: ['a'],
    },
    '{\n  a: integer  // Of all.\n  b?: boolean\n}',
  ],
  ['a map', { additionalProperties: { type: 'number' } }, '{ any key: number }'],
  ['a range', { type: 'integer', minimum: 1, maximum: 500 }, 'integer from 1 to 500'],
  ['no range that only the number type has', { type: 'integer', minimum: -9e15, maximum: 9e15 }, 'integer'],
  ['names', { enum: ['a', 'b'] }, '"a" | "b"'],
  ['so many names that they are cut', { enum: [...'abcdefghi'] }, '"a" | "b" | "c" | "d" | "e" | "f" | "g" | "h" | …'],
  ['a constant', { const: 'live' }, '"live"'],
  ['anything', {}, 'any JSON'],
])('writes %s', (_rule, schema, written) => {
  expect(outline(schema, named)).toBe(written);
});
