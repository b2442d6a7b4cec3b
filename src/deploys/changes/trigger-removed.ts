import type { Finding } from '../../model/finding.ts';
import type { Trigger } from '../../model/manifest.ts';
import { type Change, type ChangeRule, DRAIN, findingAt } from './change.ts';
import { jsonOf } from './json-of.ts';
import { learnsKey } from './secrets-changed.ts';
import { renamedTriggers } from './trigger-keys.ts';

export const triggerRemoved: ChangeRule = (change) => {
  const renames = renamedTriggers(change);
  return Object.entries(change.before.triggers)
    .filter(([key]) => !Object.hasOwn(change.after.triggers, key))
    .map(([key, trigger]) => {
      const newKey = renames.get(key);
      return newKey === undefined ? removed(change, key, trigger) : renamed(change, trigger, { key, newKey });
    });
};

function removed(change: Change, key: string, trigger: Trigger): Finding {
  return findingAt(['triggers', key], {
    rule: 'trigger-removed',
    class: 'caution',
    before: jsonOf(trigger),
    message: `The ${trigger.type} trigger \`${key}\` is gone.`,
    consequence: `${lossOf(change, trigger)} Runs that it started go on, and can be re-run.`,
    advice: ADVICE[trigger.type],
    live: startedBy(change, key),
  });
}

const ADVICE = {
  webhook: `Point its publishers elsewhere first. ${DRAIN}`,
  cron: DRAIN,
  manual: 'Nothing has to be done where nobody names the trigger.',
} as const;

function lossOf({ after }: Change, trigger: Trigger): string {
  switch (trigger.type) {
    case 'webhook': {
      const slug = trigger.inputs.webhookSlug;
      const hasOther = Object.values(after.triggers).some(({ type }) => type === 'webhook');
      const byId = hasOther
        ? 'What is delivered to the id of the flow goes to the first webhook trigger that is left.'
        : 'What is delivered to the id of the flow gets a 404 too.';
      return (
        `${slug === undefined ? 'It has no slug.' : `Publishers that deliver to ${slug} get a 404.`} ${byId} Its nonces and ` +
        'idempotency keys match nothing any more: under another trigger a repeated delivery counts as new.'
      );
    }
    case 'cron':
      return 'It fires no more; whether it was paused, and a change of its schedule, are kept under its key.';
    case 'manual':
      return 'The flow can be started by hand all the same; idempotency keys that were sent with this trigger match nothing.';
  }
}

function renamed(change: Change, trigger: Trigger, { key, newKey }: { key: string; newKey: string }): Finding {
  const other = change.after.triggers[newKey];
  return findingAt(['triggers', key], {
    rule: 'trigger-renamed',
    class: 'caution',
    before: { key, ...entriesOf(trigger) },
    after: other === undefined ? newKey : { key: newKey, ...entriesOf(other) },
    message: `The ${trigger.type} trigger \`${key}\` has the new key \`${newKey}\`.`,
    consequence: `${RENAMED[trigger.type]}${learnsAgain(other)}`,
    advice: 'Keep the key of the trigger; it is seen by nobody but in records.',
    live: startedBy(change, key),
  });
}

const RENAMED = {
  webhook:
    'Accepted nonces and idempotency keys go with it: a delivery that was accepted under the old key is a replay under the ' +
    'new one. Records keep the old key. Runs in flight go on.',
  cron:
    'The state of a schedule is kept by the key of the trigger: under the new one it is not paused, and a schedule that was ' +
    'changed on the dashboard is what the manifest says again. Runs in flight go on.',
  manual:
    'Idempotency keys go with it: one that was used under the old key starts no run under the new one. Runs in flight go on.',
} as const;

function learnsAgain(trigger: Trigger | undefined): string {
  if (trigger?.type !== 'webhook' || !learnsKey(trigger.inputs)) return '';
  return (
    ' The learnt key is kept by the key of the trigger too: under the new one deliveries are not verified by it, and no ' +
    'handshake brings another. Rename the trigger back, or forget its learnt key and make the webhook again.'
  );
}

function entriesOf(trigger: Trigger) {
  return jsonOf(trigger) as { readonly [key: string]: ReturnType<typeof jsonOf> };
}

function startedBy({ live }: Change, key: string): string | undefined {
  const started = live.runs.filter(({ triggerKey }) => triggerKey === key).length;
  if (started === 0) return undefined;
  const part = live.runs.length < live.runsInFlight ? `of the oldest ${live.runs.length}, ` : '';
  return `${part}${started} ${started === 1 ? 'run' : 'runs'} in flight ${started === 1 ? 'was' : 'were'} started by \`${key}\``;
}
