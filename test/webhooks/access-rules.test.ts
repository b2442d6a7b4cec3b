import { expect, it } from 'vitest';
import { judgesOf } from '../../src/webhooks/access-rules.ts';
import { gateChain, gatePreparer } from '../../src/webhooks/gates/index.ts';
import { sampleSettings, sampleTrigger } from './samples.ts';

it.each(['geofence', 'eventId', 'operators'])('an operator gate named %s is a judge of its triggers', (name) => {
  const gate = { name, prepare: () => ({ name, check: () => ({ passed: true as const }) }) };
  const preparer = gatePreparer(gateChain([gate]), sampleSettings());
  expect(judgesOf(sampleTrigger({ webhookEnforcementMode: 'Enforce' }), preparer).gates).toEqual([name]);
});
