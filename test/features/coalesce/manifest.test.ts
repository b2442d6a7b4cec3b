import { describe, expect, it } from 'vitest';
import { checkTriggerExpressions } from '../../../src/manifest/trigger-expressions.ts';
import type { Json } from '../../../src/model/json.ts';
import { issuesAfter, rules } from '../../manifest/rules.ts';

/** The issues of a trigger with this `coalesce` field. */
function issues(coalesce: Json, trigger = 'github', name = 'coalesce') {
  const found = issuesAfter((manifest) => {
    const edited = manifest.triggers[trigger];
    if (edited === undefined) throw new Error('no such trigger');
    Object.assign(edited, { [name]: coalesce });
  }, rules);
  return found.filter((issue) => issue.toLowerCase().includes('coalesce'));
}

describe('deliveries that share runs, in a manifest', () => {
  it('need a key; the rest has defaults', () => {
    expect(issues({ key: 'body.sku' })).toEqual([]);
    expect(issues({ key: 'body.sku', quietSeconds: 0.5, maxSeconds: 0.5, collect: 1 })).toEqual([]);
    expect(issues({ key: 'headers["x-shop"]' })).toEqual([]);
  });

  it.each([
    ['no key', {}, 'coalesce.key: is not an expression; a text is accepted'],
    ['a key that does not parse', { key: 'body.' }, 'coalesce.key: expression "body."'],
    ['a key that gives a list', { key: '[body.a]' }, 'coalesce.key: gives a list'],
    ['a key that gives a bool', { key: 'body.a == 1' }, 'coalesce.key: gives a bool; a key of deliveries is'],
    ['what a step reads', { key: 'trigger.body.a' }, 'expressions of a trigger read body and headers'],
    ['a header that may be a secret', { key: 'headers.authorization' }, 'reads the header authorization'],
    ['an unnamed header', { key: 'headers[body.a]' }, 'has to name the header'],
    [
      'less time than silence',
      { key: 'body.a', quietSeconds: 5, maxSeconds: 4 },
      'maxSeconds: is less than quietSeconds',
    ],
    ['no time', { key: 'body.a', quietSeconds: 0 }, 'coalesce.quietSeconds'],
    ['more than a day', { key: 'body.a', maxSeconds: 86_401 }, 'coalesce.maxSeconds'],
    ['too many', { key: 'body.a', collect: 1001 }, 'coalesce.collect'],
    ['an unknown field', { key: 'body.a', size: 1 }, 'coalesce.size'],
    ['a text', 'body.a', 'coalesce: is a string; an object is accepted'],
  ])('are refused with %s', (_, coalesce, message) => {
    expect(issues(coalesce as Json).join('\n')).toContain(message);
  });

  it('are spelled in any case', () => {
    expect(issues({ Key: 'body.a', QuietSeconds: 1 }, 'github', 'Coalesce')).toEqual([]);
  });

  it('belong to webhooks alone', () => {
    expect(issues({ key: 'body.a' }, 'byHand')).toEqual([
      expect.stringContaining('is not accepted on a manual trigger'),
    ]);
  });

  it('wait for others, so that no answer can wait for their run', () => {
    const coalesce = { key: 'body.a', quietSeconds: 2, maxSeconds: 30, collect: 100 };
    const inputs = JSON.parse('{"webhookRespond":{"step":"reply","withinSeconds":2}}');
    const problems = checkTriggerExpressions({ hook: { type: 'webhook', inputs, coalesce } });
    expect(problems).toMatchObject([{ severity: 'error', path: 'triggers.hook.coalesce' }]);
  });
});
