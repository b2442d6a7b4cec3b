import type { Trigger } from '../../model/manifest.ts';
import { type ChangeRule, findingAt } from './change.ts';
import { jsonOf } from './json-of.ts';
import { learnsKey } from './secrets-changed.ts';
import { newTriggers } from './trigger-keys.ts';

export const triggerAdded: ChangeRule = (change) =>
  newTriggers(change).map(([key, trigger]) =>
    findingAt(['triggers', key], {
      rule: 'trigger-added',
      class: 'safe',
      after: jsonOf(trigger),
      message: `The ${trigger.type} trigger \`${key}\` is new.`,
      consequence: `The triggers that there are stay as they are, and so do runs in flight.${gatesOf(trigger)}`,
    }),
  );

/** A new way in is safe for runs; how far it is open has to be seen all the same. */
function gatesOf(trigger: Trigger): string {
  if (trigger.type !== 'webhook') return '';
  const { webhookSignatureScheme: scheme, webhookEnforcementMode: mode } = trigger.inputs;
  const checked =
    scheme === undefined
      ? ' No signature is checked: whoever knows its URL can start runs.'
      : ` Deliveries are signed by the scheme ${scheme}.`;
  const learns = learnsKey(trigger.inputs) ? ' Whoever sends its first handshake decides its key.' : '';
  return `${checked}${learns}${mode === 'Off' || mode === 'Audit' ? ` Its mode is ${mode}: no gate refuses anything.` : ''}`;
}
