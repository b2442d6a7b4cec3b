import { describe, expect, it } from 'vitest';
import { ArrivingBody } from '../../../src/expressions/trigger-body.ts';
import { compileKeys, readKeys } from '../../../src/features/search-keys/keys.ts';

const HEADERS = { 'x-github-event': 'push', 'x-count': '7' };

function read(source: string, body: string | Buffer, contentType = 'application/json') {
  const { keys, mistakes } = compileKeys({ key: source });
  if (mistakes[0] !== undefined) return { mistake: mistakes[0].message };
  const arrived = new ArrivingBody(Buffer.from(body), { contentType });
  expect(arrived.isMalformed()).toBe(false);
  const { values, problems } = readKeys(keys, { headers: HEADERS, body: () => arrived.value() });
  return problems[0] === undefined ? { value: values.key } : { problem: problems[0] };
}

describe('a search key', () => {
  it.each([
    ['body.name', '{"name":"SO-1010"}', 'SO-1010'],
    ['body.id', '{"id":12345678901234567890}', '12345678901234567890'],
    ['body.total', '{"total":1.10}', '1.10'],
    ['body.rate', '{"rate":0.5}', '0.5'],
    ['body.paid', '{"paid":true}', 'true'],
    ['body.lines[0].sku', '{"lines":[{"sku":"A-1"}]}', 'A-1'],
    ['body["order-id"]', '{"order-id":7}', '7'],
    ['"C-" + string(int(body.customer))', '{"customer":42}', 'C-42'],
    ['headers.x-github-event', '{}', 'push'],
    ['headers["x-github-event"]', '{}', 'push'],
    ['body.note', '{"note":" two\\n\\tlines\\u0000 "}', 'two lines'],
    ['body.note', '{"note":""}', undefined],
    ['body.note', '{"note":null}', undefined],
    ['body.half', '{"half":"a\\ud800"}', 'a\ufffd'],
  ])('%s of %s is %s', (source, body, value) => {
    expect(read(source, body)).toEqual({ value });
  });

  it('reads the fields of a form', () => {
    expect(read('body.MessageSid', 'MessageSid=SM1&Body=%20', 'application/x-www-form-urlencoded')).toEqual({
      value: 'SM1',
    });
  });

  it('is cut and marked where it is long', () => {
    const { value } = read('body.name', JSON.stringify({ name: 'x'.repeat(1000) }));
    expect(value).toBe(`${'x'.repeat(200)}…`);
  });

  it.each([
    ['body.none', '{}', 'there is no body.none'],
    ['body.name', '"text"', 'there is no body.name'],
    ['body.list', '{"list":[1]}', 'gives an array; a search key is a text, a number or a boolean'],
    ['headers["x-none"]', '{}', 'there is no headers["x-none"]'],
  ])('%s of %s has no value, and says why', (source, body, reason) => {
    expect(read(source, body).problem).toMatch(/^key: expression /);
    expect(read(source, body).problem).toContain(reason);
  });

  it.each([
    ['body.', 'Expected IDENTIFIER'],
    ['', 'is empty'],
    ['trigger.body.name', '"trigger" is not known; expressions of a trigger read body and headers'],
    ['headers', 'gives a map; a search key is a text, a number or a boolean'],
    ['string(size(headers))', 'has to name the header'],
    ['headers[body.x]', 'has to name the header'],
    ['headers["X-Name"]', 'header names are lower-case: "x-name"'],
    ['body.lines.map(l, l.id)', 'a search key is a text, a number or a boolean'],
    ['body.map(headers, headers)', 'a variable hides a root'],
  ])('%s cannot be compiled', (source, reason) => {
    expect(read(source, '{}').mistake).toContain(reason);
  });

  it('has a name that fits a column', () => {
    expect(compileKeys({ 'a b': 'body.x', 'x:y': 'body.x' }).mistakes).toHaveLength(2);
    const nine = Object.fromEntries(Array.from({ length: 9 }, (_, n) => [`k${n}`, 'body.x']));
    expect(compileKeys(nine).mistakes).toEqual([{ field: 'k8', message: 'is one too many: at most 8 are accepted' }]);
  });
});

describe('a body that is made to cost time', () => {
  const { keys } = compileKeys({
    one: 'body.filter(x, x == "a").size()',
    two: 'string(body.filter(x, x != "a").size())',
    id: 'headers.x-count',
  });

  it.each([
    ['a long list', `[${'"b",'.repeat(40_000)}"a"]`],
    ['a deep list', `${'['.repeat(5000)}${']'.repeat(5000)}`],
    ['numbers that are kept exactly', `[${'1e5,'.repeat(100_000)}1]`],
  ])('%s leaves its keys without a value, and the others with theirs', (_name, body) => {
    const arrived = new ArrivingBody(Buffer.from(body), { contentType: 'application/json' });
    arrived.isMalformed();
    const { values, problems } = readKeys(keys, { headers: HEADERS, body: () => arrived.value() });
    if (body.length > 65_536)
      expect(problems[0]).toContain('takes more work than is allowed over this data (10000 steps)');
    expect(Object.keys(values).length + problems.length).toBe(3);
  });

  it.each(['text/plain', 'application/x-www-form-urlencoded', undefined])(
    'is not parsed for the keys alone where it is large: %s',
    (contentType) => {
      const arrived = new ArrivingBody(Buffer.from(`{"a":"${'b'.repeat(70_000)}"}`), { contentType });
      expect(arrived.isMalformed()).toBe(false);
      expect(() => arrived.value()).toThrow('the body has 70008 bytes, and 65536 are read');
    },
  );

  it('keeps no digits wrong', () => {
    const large = `{"id":12345678901234567890,"more":"${'b'.repeat(70_000)}"}`;
    expect(read('body.id', large).problem).toContain('its digits were lost');
  });
});
