import { expect, test } from 'vitest';
import { stepTypes } from '../../src/config/steps.ts';
import { handlerTable } from '../../src/flows/handlers/index.ts';
import { STRUCTURAL_KEYS } from '../../src/manifest/schema.ts';
import { TRIGGER_OBJECTS } from '../../src/manifest/webhook-fields.ts';
import { issuesAfter, rules } from './rules.ts';

const builtIn = { ...rules, handlers: handlerTable(stepTypes().handlers) };

type Manifest = Record<string, unknown>;

/** The issues of a manifest with a field in one of its objects. */
function issuesWith(levels: readonly string[], name: string, value: unknown = {}): string {
  return issuesAfter((manifest) => {
    const { triggers, steps } = manifest as unknown as Record<string, Record<string, Manifest>>;
    Object.assign(triggers ?? {}, {
      hook: { type: 'webhook', inputs: { webhookSlug: 'hook' }, coalesce: { key: 'body.a' } },
      daily: { type: 'cron', inputs: { cronExpression: '0 2 * * *' } },
      hand: { type: 'manual', inputs: {} },
    });
    Object.assign(steps ?? {}, {
      call: { type: 'HttpRequest', inputs: { url: 'https://example.com' }, retry: { maxAttempts: 2 } },
      loop: { type: 'ForEach', forEach: [1], inputs: {}, steps: { inner: { type: 'Delay', inputs: { seconds: 1 } } } },
      last: { type: 'Delay', inputs: { seconds: 1 }, runAfter: { call: { statuses: ['Succeeded'] } } },
    });
    let place: unknown = manifest;
    for (const level of levels) place = (place as Manifest)[level];
    Object.assign(place as Manifest, { [name]: value });
  }, builtIn).join('\n');
}

test.each<[string, string, string]>([
  ['triggers.hook.inputs', 'searchKeys', 'triggers.hook.searchKeys'],
  ['triggers.hook.inputs', 'SearchKeys', 'triggers.hook.searchKeys'],
  ['triggers.hook.inputs', 'coalesce', 'triggers.hook.coalesce'],
  ['triggers.hook.inputs', 'reconcile', 'triggers.hook.reconcile'],
  ['triggers.hook.inputs', 'serialize', 'the top of the manifest'],
  ['triggers.hook.inputs', 'quietSeconds', 'triggers.hook.coalesce.quietSeconds'],
  ['triggers.hook.inputs', 'cronExpression', 'a cron trigger'],
  ['triggers.hook', 'webhookSlug', 'triggers.hook.inputs.webhookSlug'],
  ['triggers.hook', 'serialize', 'the top of the manifest'],
  ['triggers.hook', 'runAfter', 'steps.KEY.runAfter'],
  ['triggers.hook.coalesce', 'searchKeys', 'triggers.hook.searchKeys'],
  ['triggers.daily', 'cronExpression', 'triggers.daily.inputs.cronExpression'],
  ['triggers.daily.inputs', 'webhookSlug', 'a webhook trigger'],
  ['triggers.daily.inputs', 'serialize', 'the top of the manifest'],
  ['triggers.hand.inputs', 'searchKeys', 'triggers.hand.searchKeys'],
  ['triggers.hand.inputs', 'webhookSlug', 'a webhook trigger'],
  ['', 'webhookSlug', 'triggers.KEY.inputs.webhookSlug'],
  ['', 'runAfter', 'steps.KEY.runAfter'],
  ['', 'searchKeys', 'triggers.KEY.searchKeys'],
  ['', 'type', 'triggers.KEY.type or steps.KEY.type'],
  ['steps.call', 'url', 'steps.call.inputs.url'],
  ['steps.call', 'when', 'steps.call.runAfter.KEY.when'],
  ['steps.call', 'maxAttempts', 'steps.call.retry.maxAttempts'],
  ['steps.call', 'onFailure', 'the top of the manifest'],
  ['steps.call', 'webhookSlug', 'triggers.KEY.inputs.webhookSlug'],
  ['steps.call.retry', 'timeoutSeconds', 'steps.call.timeoutSeconds'],
  ['steps.call.inputs', 'runAfter', 'steps.call.runAfter'],
  ['steps.call.inputs', 'retry', 'steps.call.retry'],
  ['steps.call.inputs', 'serialize', 'the top of the manifest'],
  ['steps.last.runAfter.call', 'retry', 'steps.last.retry'],
  ['steps.loop.inputs', 'concurrencyLimit', 'steps.loop.concurrencyLimit'],
  ['steps.loop.steps.inner.inputs', 'runAfter', 'steps.loop.steps.inner.runAfter'],
  ['steps.loop.steps.inner', 'when', 'steps.loop.steps.inner.runAfter.KEY.when'],
])('a field in %s that is %s is an error that names its place', (levels, name, place) => {
  const line = issuesWith(levels === '' ? [] : levels.split('.'), name)
    .split('\n')
    .find((each) => each.includes('its place is '));
  expect(line).toMatch(/^error /);
  expect(line?.split('its place is ')[1]).toBe(place);
});

test('no field of a trigger, a step or the manifest is taken for a spelling of another, wherever it is', () => {
  const { manifest, trigger, step, edge, retry } = STRUCTURAL_KEYS;
  const places = [
    [],
    ['triggers', 'hook'],
    ['triggers', 'hook', 'inputs'],
    ['steps', 'call'],
    ['steps', 'call', 'retry'],
  ];
  for (const place of places) {
    for (const name of new Set([
      ...manifest,
      ...trigger,
      ...step,
      ...edge,
      ...retry,
      ...(TRIGGER_OBJECTS.coalesce?.keys ?? []),
    ])) {
      // A trigger has its own condition, whose name begins with webhook.
      if (name === 'when') continue;
      expect(issuesWith(place, name), `${name} in ${place.join('.')}`).not.toContain('did you mean');
    }
  }
});

test("an author's own name among the inputs of a trigger is still only a warning", () => {
  expect(issuesWith(['triggers', 'hook', 'inputs'], 'note')).toMatch(/^warning .*is ignored/m);
  expect(issuesWith(['triggers', 'hand', 'inputs'], 'name')).toBe('');
});
