import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type BodySchema, compileBodySchema, parseBodySchema } from '../../src/manifest/body-schema.ts';
import type { JsonObject } from '../../src/model/json.ts';

const ORDER: JsonObject = {
  type: 'object',
  required: ['name', 'total'],
  properties: { name: { type: 'string', pattern: '^SO-[0-9]+$' }, total: { type: 'number' }, lines: { type: 'array' } },
};

function compiled(schema: JsonObject): BodySchema {
  const found = compileBodySchema(schema);
  if ('error' in found) throw new Error(found.error);
  return found;
}

function mistakes(schema: JsonObject, body: unknown, contentType = 'application/json'): readonly string[] {
  return compiled(schema).mistakesIn(Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)), contentType);
}

describe('a schema of bodies', () => {
  it('finds nothing in a body that fits', () => {
    expect(mistakes(ORDER, { name: 'SO-1010', total: 12.5, more: true })).toEqual([]);
  });

  it.each([
    [{ name: 'SO-1' }, "the body must have required property 'total'"],
    [{ name: 'SO-1', total: 'much' }, '/total must be number'],
    [{ name: 'sw0rdfish', total: 1 }, '/name must match pattern "^SO-[0-9]+$"'],
    [[], 'the body must be object'],
  ])('names the place in %o and quotes no value: %s', (body, message) => {
    expect(mistakes(ORDER, body)).toEqual([message]);
  });

  it('tells two patterns of one schema apart', () => {
    const schema = { properties: { a: { pattern: '^a$' }, b: { pattern: '^b$' } } };
    expect(mistakes(schema, { a: 'a', b: 'b' })).toEqual([]);
    expect(mistakes(schema, { a: 'b', b: 'b' })).toEqual(['/a must match pattern "^a$"']);
    expect(mistakes(schema, { a: 'a', b: 'a' })).toEqual(['/b must match pattern "^b$"']);
  });

  it('judges a form, a text and an empty body as expressions see them', () => {
    const form: JsonObject = { type: 'object', required: ['a'], properties: { a: { type: 'string' } } };
    expect(mistakes(form, 'a=1&b=2', 'application/x-www-form-urlencoded')).toEqual([]);
    expect(mistakes({ type: 'string' }, 'plain words', 'text/plain')).toEqual([]);
    expect(mistakes(form, '')).toEqual(['the body must be object']);
  });

  it('takes a number that a double cannot hold as a number', () => {
    expect(mistakes(ORDER, '{"name":"SO-1","total":12345678901234567890123}')).toEqual([]);
  });

  it('does not take what every object inherits for what was sent', () => {
    expect(mistakes({ required: ['toString'] }, {})).toEqual(["the body must have required property 'toString'"]);
    expect(mistakes({ required: ['__proto__'] }, '{"__proto__":1}')).toEqual([]);
  });

  it.each([
    [{ type: 'objekt' }, 'type'],
    [{ requird: ['a'] }, 'requird'],
    [{ $ref: 'https://example.com/other.json' }, 'other.json'],
    [{ pattern: '(?=lookahead)' }, '(?='],
    [{ format: 'no-such-format' }, 'no-such-format'],
  ])('refuses %o, and says why', (schema, why) => {
    expect(compileBodySchema(schema)).toMatchObject({ error: expect.stringContaining(why) });
  });

  it('reads draft 07 where $schema says so', () => {
    const schema = { $schema: 'http://json-schema.org/draft-07/schema#', items: [{ type: 'string' }] };
    expect(mistakes(schema, [1])).toEqual(['/0 must be string']);
    expect(compileBodySchema({ items: [{ type: 'string' }] })).toMatchObject({ error: expect.any(String) });
  });

  it.each(['', 'no JSON: secret', '[]', 'null', '"text"'])(
    'of the file %j says that it holds no schema, not what',
    (text) => {
      expect(parseBodySchema(text)).toEqual({ error: 'refers to a file that does not contain a JSON object' });
    },
  );

  it.each([
    ['a pattern that backtracks', { pattern: '^(a+)+$' }, JSON.stringify(`${'a'.repeat(60_000)}!`)],
    ['very many items', { items: { type: 'string' } }, JSON.stringify(new Array(300_000).fill(1))],
    ['unique items', { uniqueItems: true }, JSON.stringify(Array.from({ length: 60_000 }, (_, n) => [n]))],
    [
      'two ways at each level',
      {
        anyOf: [
          { items: { $ref: '#' }, minItems: 1 },
          { items: { $ref: '#' }, maxItems: 1 },
        ],
        not: { type: 'string' },
      },
      `${'['.repeat(60)}"x"${']'.repeat(60)}`,
    ],
    ['deep nesting', { items: { $ref: '#' } }, `${'['.repeat(90_000)}${']'.repeat(90_000)}`],
  ])('ends on %s with a mistake or none, and judges the next body', (_, schema, body) => {
    const judge = compiled(schema as JsonObject);
    expect(judge.mistakesIn(Buffer.from(body), 'application/json')).toBeInstanceOf(Array);
    expect(judge.mistakesIn(Buffer.from('[]'), 'application/json')).toBeInstanceOf(Array);
  });

  it('never throws, whatever the body', () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.string(), (body, contentType) => {
        expect(compiled(ORDER).mistakesIn(body, contentType)).not.toEqual([]);
      }),
    );
  });
});
