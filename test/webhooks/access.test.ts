import { describe, expect, it } from 'vitest';
import type { WebhookTrigger } from '../../src/manifest/webhook-inputs.ts';
import { withoutRules } from '../../src/webhooks/access.ts';
import type { Routes } from '../../src/webhooks/access-rules.ts';
import { gateChain, gatePreparer } from '../../src/webhooks/gates/index.ts';
import { sampleSettings, sampleTrigger } from './samples.ts';

const gates = { preparer: gatePreparer(gateChain(), sampleSettings()), defaultMode: 'Enforce' } as const;
const led = (trigger: WebhookTrigger | undefined): Routes => new Map([['push', { triggerKey: 'webhook', trigger }]]);
const trigger = sampleTrigger({ webhookSlug: 'push' });
const none: Routes = new Map();

describe('without rules of access', () => {
  it('access is the same if no trigger changes', () => {
    const after = led({ ...trigger });
    expect(withoutRules.changeOf({ before: led(trigger), after, known: none, gates })).toMatchObject({
      access: 'same',
      routes: [],
    });
  });

  it.each([
    ['a field of the trigger changes', { before: led(trigger), after: led(sampleTrigger({ webhookSlug: 'Push' })) }],
    ['a trigger that was not served is', { before: led(undefined), after: led(trigger) }],
    ['a trigger gets the slug of another', { known: led(sampleTrigger({})), after: led(trigger) }],
    ['the gates were others', { before: led(trigger), after: led(trigger), gatesBefore: { ...gates } }],
  ])('access is wider, and has to be allowed, if %s', (_what, change) => {
    const { access, routes } = withoutRules.changeOf({ before: undefined, known: none, gates, ...change });
    expect([access, routes]).toMatchObject(['wider', [{ access: 'wider', before: expect.any(String) }]]);
  });

  it('a new route is wider, and stops no deploy', () => {
    const change = withoutRules.changeOf({ before: undefined, after: led(trigger), known: none, gates });
    expect(change).toMatchObject({ access: 'wider', routes: [{ before: null }] });
  });

  it('no two triggers share a slug', () => {
    expect(withoutRules.differencesOf(trigger, trigger, gates)).toEqual(['gates']);
  });
});
