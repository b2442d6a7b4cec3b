import { Ajv2020 } from 'ajv/dist/2020.js';
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
  return compiled(schema).mistakesIn(Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)), {
    contentType,
  });
}

const keys = (count: number) => Array.from({ length: count }, (_, n) => `"k${n}":1`).join();
const dynamic = (schema: object) => JSON.parse(JSON.stringify(schema).replaceAll('"$ref":"#"', '"$dynamicRef":"#n"'));

const VALUE = fc.jsonValue({ maxDepth: 3 });

/** Schemas with so many levels below them. */
function schemas(levels: number): fc.Arbitrary<JsonObject> {
  const leaves = {
    type: fc.constantFrom('object', 'array', 'string', 'number', 'null', 'boolean'),
    patternProperties: fc.constantFrom({ '^a': { type: 'string' } }, {}),
    unevaluatedProperties: fc.boolean(),
    propertyNames: fc.constant({ maxLength: 3 }),
    uniqueItems: fc.boolean(),
    minItems: fc.nat(2),
    maxLength: fc.nat(4),
    pattern: fc.constantFrom('^a', 'b$', '[0-9]'),
    enum: fc.uniqueArray(VALUE, { minLength: 1, maxLength: 3, selector: (each) => JSON.stringify(each) }),
    const: VALUE,
    $ref: fc.constant('#/$defs/shared'),
  };
  if (levels === 0) return fc.record(leaves, { requiredKeys: [] }) as fc.Arbitrary<JsonObject>;
  const inner = schemas(levels - 1);
  const some = fc.array(inner, { minLength: 1, maxLength: 2 });
  const branches = {
    properties: fc.dictionary(fc.constantFrom('a', '', 'items', '__proto__'), inner, { maxKeys: 2 }),
    additionalProperties: fc.oneof(fc.boolean(), inner),
    dependentSchemas: fc.dictionary(fc.constantFrom('a', 'enum'), inner, { maxKeys: 1 }),
    items: inner,
    prefixItems: some,
    contains: inner,
    not: inner,
    anyOf: some,
    oneOf: some,
    if: inner,
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    then: inner,
  };
  return fc.record({ ...leaves, ...branches }, { requiredKeys: [] }) as fc.Arbitrary<JsonObject>;
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

  it('of a file that gives a key twice says which: the second would count without a word', () => {
    const text = '{"required":["amount"],\n"required":[]}';
    expect(parseBodySchema(text)).toEqual({
      error: 'refers to a file in which required is given twice, again on line 2',
    });
  });

  it('of a file may bound a number that no double is, and may be deep', () => {
    const bounded = parseBodySchema('{"properties":{"id":{"type":"integer","maximum":9223372036854775807}}}');
    expect(bounded).toMatchObject({ text: expect.any(String) });
    const deep = (levels: number): object => (levels === 0 ? {} : { items: deep(levels - 1) });
    expect(parseBodySchema(JSON.stringify(deep(120)))).toMatchObject({ text: expect.any(String) });
  });

  const TWO_WAYS = {
    anyOf: [
      { items: { $ref: '#' }, minItems: 1 },
      { items: { $ref: '#' }, maxItems: 1 },
    ],
  };
  const nested = (inner: string, levels = 60) => `${'['.repeat(levels)}${inner}${']'.repeat(levels)}`;
  const skus = Array.from({ length: 5000 }, (_, n) => `SKU${n}`);
  const text = (part: string, length: number) => JSON.stringify(part.repeat(length / part.length));

  it.each([
    ['two ways at each level', { ...TWO_WAYS, not: { type: 'string' } }, nested('"x"')],
    ['two ways to a long text', { ...TWO_WAYS, not: { type: 'string', maxLength: 1e6 } }, nested(text('x', 1e5))],
    ['two ways to many keys', { ...TWO_WAYS, not: { enum: [{ a: 1 }] } }, nested(`{${keys(50_000)}}`)],
    [
      'two ways by a dynamic reference',
      { $dynamicAnchor: 'n', ...dynamic(TWO_WAYS), not: { type: 'string' } },
      nested('"x"'),
    ],
    ['a pattern with many states', { pattern: '[ab]*a[ab]{100}[cd]' }, text('abba', 1e6)],
    [
      'many texts and a pattern',
      { contains: { pattern: '.*a.{40}[cd]' } },
      JSON.stringify(new Array(3000).fill('ab'.repeat(50))),
    ],
    ['a long text as a URL', { format: 'url' }, JSON.stringify(`http://${'a:'.repeat(1e5)}`)],
  ])('finds %s too expensive, each time, and judges the next body', (_, schema, body) => {
    const judge = compiled(schema as JsonObject);
    for (const _time of [1, 2]) {
      expect(judge.mistakesIn(Buffer.from(body), { contentType: 'application/json' })).toEqual(['too expensive']);
    }
    expect(judge.mistakesIn(Buffer.from('[]'), { contentType: 'application/json' })).not.toEqual(['too expensive']);
  });

  it.each([
    ['a pattern that backtracks elsewhere', { pattern: '^(a+)+$' }, JSON.stringify('a'.repeat(60_000))],
    ['very many items', { items: { type: 'number' } }, JSON.stringify(new Array(300_000).fill(1))],
    ['one of many values', { items: { enum: skus } }, JSON.stringify(new Array(40_000).fill('SKU4999'))],
    ['base64', { pattern: '^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==)?$' }, text('QUJD', 400_000)],
    ['unique items', { uniqueItems: true }, JSON.stringify(Array.from({ length: 60_000 }, (_, n) => [n]))],
    [
      'many short texts',
      { items: { pattern: '^[A-Z0-9]{1,64}$' } },
      JSON.stringify(new Array(40_000).fill('AB12345678')),
    ],
  ])('has the time for %s', (_, schema, body) => {
    expect(mistakes(schema as JsonObject, body)).toEqual([]);
  });

  it('takes no schema that asks itself the same again, or is too wide for the call stack', () => {
    const wide = Object.fromEntries(Array.from({ length: 20_000 }, (_, n) => [`k${n}`, { type: 'string' }]));
    for (const schema of [{ allOf: [{ $ref: '#' }] }, { properties: wide }]) {
      expect(compileBodySchema(schema)).toEqual({ error: expect.stringContaining('is not a usable JSON Schema') });
    }
    expect(mistakes({ items: { $ref: '#' } }, nested('', 256))).toEqual([]);
  });

  it('says how many schemas fit on the call stack, side by side, inside each other, or both', () => {
    const wide = (count: number, inner: JsonObject = { type: 'string' }): JsonObject => ({
      properties: Object.fromEntries(
        Array.from({ length: count }, (_, n) => [`k${n}`, n === 0 ? inner : { minLength: 1 }]),
      ),
    });
    const repeated = (levels: number, of: (inner: JsonObject) => JsonObject): JsonObject =>
      Array.from({ length: levels }).reduce<JsonObject>((inner) => of(inner), { type: 'string' });
    const told = (schema: JsonObject) => {
      const judge = compileBodySchema(schema);
      return 'error' in judge ? judge.error : 'accepted';
    };
    const refused = /^is not a usable JSON Schema: it has 100\d schemas side by side and inside each other, .*1000/;
    expect(told(wide(1000))).toBe('accepted');
    expect(told(wide(1001))).toMatch(refused);
    expect(told({ allOf: Array.from({ length: 1001 }, (_, n) => ({ minLength: n })) })).toMatch(refused);
    expect(told(repeated(250, (items) => ({ items })))).toBe('accepted');
    expect(told(repeated(251, (items) => ({ items })))).toMatch(refused);
    expect(told(repeated(10, (inner) => wide(97, inner)))).toBe('accepted');
    expect(told(repeated(11, (inner) => wide(89, inner)))).toMatch(refused);
    expect(told({ $ref: '#/$defs/a', $defs: { a: wide(1000), b: wide(1000) } })).toBe('accepted');
    expect(told({ $defs: { a: wide(1001) } })).toMatch(refused);
    expect(told(wide(2200))).toMatch(/it has 2200 schemas side by side/);
  });

  it('says of a file of any depth that it is nested too deeply', () => {
    const file = `${'{"items":'.repeat(20_000)}true${'}'.repeat(20_000)}`;
    expect(parseBodySchema(file)).toEqual({ error: expect.stringContaining('nested too deeply') });
  });

  it('finds equal items whatever the order of their keys, and no others', () => {
    const unique = { uniqueItems: true };
    expect(mistakes(unique, '[{"a":1,"b":[2]},{"b":[2],"a":1}]')).toEqual(['the body must NOT have duplicate items']);
    expect(mistakes(unique, '[1,1.0]')).toEqual(['the body must NOT have duplicate items']);
    expect(mistakes(unique, '[1,"1",[1],{"1":1},null,"null",{"__proto__":1},{}]')).toEqual([]);
  });

  it('says of any value what the library says by itself', () => {
    const schema = schemas(2);
    const lenient = { strictTypes: false, strictTuples: false, strictRequired: false };
    const plain = new Ajv2020({ strict: true, ...lenient, ownProperties: true });
    fc.assert(
      fc.property(schema, VALUE, (chosen, body) => {
        const whole: JsonObject = {
          ...chosen,
          $defs: { shared: { type: ['string', 'array'], items: { type: 'number' } } },
        };
        let fits: boolean;
        try {
          fits = plain.compile(whole)(JSON.parse(JSON.stringify(body)));
        } catch {
          expect(compileBodySchema(whole)).toHaveProperty('error');
          return;
        }
        expect(mistakes(whole, JSON.stringify(body)).length === 0).toBe(fits);
      }),
      { numRuns: 25 },
    );
  });

  it('never throws, whatever the body', () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.string(), (body, contentType) => {
        expect(compiled(ORDER).mistakesIn(body, { contentType })).not.toEqual([]);
      }),
    );
  });
});
