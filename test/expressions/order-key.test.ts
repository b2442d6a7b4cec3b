import { describe, expect, it } from 'vitest';
import { compileOrderKey, orderKeyReader, readTrigger } from '../../src/expressions/order-key.ts';

const HEADERS = { 'x-tenant': 'acme' };

function read(source: string, body: string, contentType = 'application/json') {
  const trigger = { key: 'in', headers: HEADERS, body: Buffer.from(body), contentType };
  return orderKeyReader(source)(readTrigger(trigger));
}

describe('the key of a run', () => {
  it.each([
    ['trigger.body.order.id', '{"order":{"id":"A 1"}}', 'A 1'],
    ['trigger.body.id', '{"id":7}', '7'],
    ['trigger.body.id', '{"id":"7"}', '7'],
    ['trigger.body.id', '{"id":12345678901234567890}', '12345678901234567890'],
    ['trigger.body.paid', '{"paid":true}', 'true'],
    ['trigger.headers["x-tenant"] + "/" + trigger.key', '{}', 'acme/in'],
    ['"all"', '', 'all'],
  ])('%s of %s is %s', (source, body, key) => {
    expect(read(source, body)).toEqual({ key, problem: null });
  });

  it('is as long as what it is read from', () => {
    const long = 'x'.repeat(100_000);
    expect(read('trigger.body.id', JSON.stringify({ id: long })).key).toBe(long);
  });

  it.each([
    ['trigger.body.none', '{}', 'there is no trigger.body.none'],
    ['trigger.body.id', '{"id":null}', 'gives null'],
    ['trigger.body.id', '{"id":" "}', 'gives an empty text'],
    ['trigger.body.id', '{"id":{}}', 'gives an object'],
    ['trigger.body.id', '{"id":[1]}', 'gives an array'],
    ['trigger.body.id', '', 'trigger.body.id'],
    ['trigger.body.x', `${'{"x":'.repeat(300)}1${'}'.repeat(300)}`, 'nested deeper'],
    ['trigger.body.map(a, trigger.body.map(b, a + b)).size()', `[${'1,'.repeat(3000)}1]`, 'more work than is allowed'],
    ['nothing.here', '{}', '"nothing" is not known'],
  ])('%s of %s is none, and says why', (source, body, problem) => {
    const { key, problem: said } = read(source, body);
    expect(key).toBeNull();
    expect(said).toContain(problem);
  });

  it.each([
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a mistake that a manifest may contain.
    ['${trigger.body.id}', 'leave out the ${ }'],
    ['steps.first.output', 'reads steps: no step has run'],
    ['loop.index', 'reads loop'],
    ['body.id', '"body" is not known'],
    ['[1, 2]', 'gives a list'],
    ['', 'is empty'],
  ])('%s is no expression for one', (source, mistake) => {
    expect(() => compileOrderKey(source)).toThrow(mistake);
  });
});
