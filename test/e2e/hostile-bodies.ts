import type { Delivery, HostileFlow } from './hostile-service.ts';

export const JSON_TYPE = { 'content-type': 'application/json' };
const FORM_TYPE = { 'content-type': 'application/x-www-form-urlencoded' };

const reads = (expression: string) => ({ first: { type: 'Transform', inputs: { value: `\${${expression}}` } } });

/** One flow for each way to read a body. */
export const BODY_FLOWS: readonly HostileFlow[] = [
  { slug: 'form', inputs: {}, steps: reads('trigger.body.a') },
  { slug: 'concat', inputs: {}, steps: reads('trigger.body.a + trigger.body.a + trigger.body.a') },
  { slug: 'contains', inputs: {}, steps: reads('trigger.body.a.contains(trigger.body.b)') },
  {
    slug: 'matches',
    inputs: {},
    steps: reads('trigger.body.a.matches("^(a+)+$") || trigger.body.b.matches(trigger.body.c)'),
  },
  { slug: 'loops', inputs: {}, steps: reads('trigger.body.a.exists(x, trigger.body.a.exists(y, x.z == y.z))') },
];

/** Bodies that once froze the process, or would; each with the limit that stops its step, if one does. */
export const BODIES: readonly (readonly [title: string, delivery: Delivery, ends?: string])[] = [
  [
    'a form of 10 000 empty fields',
    { slug: 'form', headers: FORM_TYPE, body: 'a=&'.repeat(10_000) },
    'the form has more than 1000 fields',
  ],
  [
    'a form of 60 000 names',
    { slug: 'form', headers: FORM_TYPE, body: fieldsOf(60_000) },
    'the form has more than 1000 fields',
  ],
  ['a form of escapes', { slug: 'form', headers: FORM_TYPE, body: `a=${'%41'.repeat(300_000)}` }],
  ['a form of broken escapes', { slug: 'form', headers: FORM_TYPE, body: `a=${'%'.repeat(900_000)}` }],
  ['JSON with 80 000 keys', { slug: 'form', headers: JSON_TYPE, body: keysOf(80_000) }],
  ['JSON nested 5 000 deep', { slug: 'form', headers: JSON_TYPE, body: nested(5000) }, 'nested deeper than 256 levels'],
  [
    'JSON nested 400 000 deep',
    { slug: 'form', headers: JSON_TYPE, body: nested(400_000) },
    'nested deeper than 256 levels',
  ],
  ['JSON with a million small items', { slug: 'form', headers: JSON_TYPE, body: `{"a":[${'1,'.repeat(499_990)}1]}` }],
  ['JSON of prototypes', { slug: 'form', headers: JSON_TYPE, body: '{"a":1,"__proto__":{"isAdmin":true}}' }],
  [
    'a long string joined to itself',
    { slug: 'concat', headers: JSON_TYPE, body: textOf({ a: 'x'.repeat(900_000) }) },
    'the output has at least 2700002 bytes',
  ],
  [
    'a long text searched for a long text',
    {
      slug: 'contains',
      headers: JSON_TYPE,
      body: textOf({ a: 'a'.repeat(500_000), b: `${'a'.repeat(250_000)}b` }),
    },
    'takes more work than is allowed over this data (1000000 steps)',
  ],
  [
    'a text and a pattern that backtrack',
    {
      slug: 'matches',
      headers: JSON_TYPE,
      body: textOf({ a: `${'a'.repeat(60)}!`, b: 'x'.repeat(60), c: '(x+x+)+y' }),
    },
  ],
  [
    'a list for a loop inside a loop, an exception for each pair',
    { slug: 'loops', headers: JSON_TYPE, body: textOf({ a: new Array(300_000).fill(1) }) },
    'takes more work than is allowed over this data (1000000 steps)',
  ],
  ['bytes that are no text', { slug: 'form', headers: FORM_TYPE, body: Buffer.alloc(900_000, 0xff) }],
];

function textOf(value: unknown): string {
  return JSON.stringify(value);
}

function fieldsOf(count: number): string {
  return Array.from({ length: count }, (_, index) => `n${index}=1`).join('&');
}

function keysOf(count: number): string {
  return `{${Array.from({ length: count }, (_, index) => `"k${index}":1`).join(',')},"a":1}`;
}

function nested(depth: number): string {
  return `{"a":${'['.repeat(depth)}${']'.repeat(depth)}}`;
}
