import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseBody } from '../../../src/expressions/trigger-body.ts';
import { readSavedTest, savedBody, triggerOf, writeSavedTest } from '../../../src/features/rehearsal/saved-test.ts';
import { parseJson } from '../../../src/model/json.ts';
import { FLOW_ID } from './flows.ts';

const trigger = { key: 'hook', type: 'webhook', contentType: null, headers: {} };
const good = { sluiceTest: 1, name: 'a test', flow: FLOW_ID, startedAt: '2026-03-01T12:00:00Z', trigger, expected: {} };

const read = (value: unknown) => readSavedTest(typeof value === 'string' ? value : JSON.stringify(value));

describe('a file', () => {
  it.each([
    ['that is not JSON', '{'],
    ['of another tool', { suites: [] }],
    ['without an object', '[1]'],
    ['with a prototype instead of the mark', '{"__proto__":{"sluiceTest":1}}'],
  ])('%s is not taken for a test', (_, value) => {
    expect(read(value)).toBeUndefined();
  });

  it.each([
    ['that is empty', '\n', '', 'is empty'],
    ['cut off', JSON.stringify(good).slice(0, -1), '', 'is not JSON'],
    ['of a later format', { ...good, sluiceTest: 2 }, 'sluiceTest', 'is not 1'],
    ['about no flow', { ...good, flow: 'orders' }, 'flow', 'is not the id of a flow'],
    ['without a start', { ...good, startedAt: 'today' }, 'startedAt', 'is not a time'],
    ['with an unknown field', { ...good, answer: {} }, 'answer', 'did you mean "answers"?'],
    ['with two bodies', { ...good, trigger: { ...trigger, text: '', body: 1 } }, 'trigger', 'more than one of body'],
    ['with a bad body', { ...good, trigger: { ...trigger, base64: '%' } }, 'trigger.base64', 'is not base64'],
    ['with one answer for all attempts', { ...good, answers: { a: {} } }, 'answers.a', 'an array is accepted'],
    ['with an expectation that nothing meets', { ...good, expected: { ends: '' } }, 'expected.ends', 'is not known'],
    [
      'with answers that an object would lose',
      JSON.stringify({ ...good, answers: {} }).replace('"answers":{}', '"answers":{"__proto__":[]}'),
      'answers.__proto__',
      'is not the path of a step',
    ],
  ])('%s has an error that names its place', (_, value, path, message) => {
    expect(read(value)).toEqual({ problems: [{ path, message: expect.stringContaining(message) }] });
  });

  it('keeps every number of an answer as it was written', () => {
    const text = JSON.stringify({ ...good, answers: { a: [{ output: { id: 0 } }] } }).replace(
      '"id":0',
      '"id":12345678901234567890',
    );
    const result = read(text);
    if (result === undefined || 'problems' in result) throw new Error('it is a test');
    expect(writeSavedTest(result.test)).toContain('"id": 12345678901234567890');
  });
});

describe('the body of a test', () => {
  it('means to expressions what the bytes meant that it was made of', () => {
    const text = fc.oneof(fc.json({ maxDepth: 2 }), fc.string(), fc.constantFrom('a=1&a=2', '1.10', '{"__proto__":1}'));
    const bytes = fc.oneof(
      text.map((it) => Buffer.from(it)),
      fc.uint8Array({ maxLength: 20 }),
    );
    const types = fc.constantFrom(null, 'application/json', 'text/plain', 'application/x-www-form-urlencoded');
    fc.assert(
      fc.property(bytes, types, (body, contentType) => {
        const written = parseJson(JSON.stringify(savedBody(body)));
        const again = triggerOf({ key: 'k', type: 'webhook', contentType, headers: {}, ...Object(written) });
        const meaning = (of: Uint8Array) => JSON.stringify(parseBody(of, { contentType: contentType ?? undefined }));
        expect(meaning(again.body)).toBe(meaning(body));
      }),
      { numRuns: 40 },
    );
  });
});
