import { DRAIN, findingAt, jsonOf, renamedTriggers } from '../../deploys/changes/revisions.ts';
import { differences } from '../../manifest/diff.ts';
import type { CronTrigger, Manifest, Trigger } from '../../manifest/schema.ts';
import { learnsKey, type ObjectsOfTrigger, TRIGGER_OBJECTS } from '../../manifest/webhook-fields.ts';
import type { Finding } from '../../model/finding.ts';
import { isSame } from '../../model/json.ts';
import { type Change, type ChangeRule, keptTriggers, triggerPairs, webhookPairs } from './change.ts';
import { gatesChanged } from './gates.ts';
import { secretsChanged } from './secrets.ts';

const triggerRemoved: ChangeRule = (change) => {
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
    message: `The ${trigger.type} trigger \`${key}\` was removed.`,
    consequence: `${lossOf(change, trigger)} Runs that it started continue, and can be re-run.`,
    advice: ADVICE[trigger.type],
    live: startedBy(change, key),
  });
}

const ADVICE = {
  webhook: `Point its publishers elsewhere first. ${DRAIN}`,
  cron: DRAIN,
  manual: 'Nothing to do, unless a caller names this trigger.',
} as const;

function lossOf({ after }: Change, trigger: Trigger): string {
  switch (trigger.type) {
    case 'webhook': {
      const slug = trigger.inputs.webhookSlug;
      const hasOther = Object.values(after.triggers).some(({ type }) => type === 'webhook');
      const byId = hasOther
        ? 'Deliveries to the id of the flow go to the first remaining webhook trigger.'
        : 'Deliveries to the id of the flow get a 404 too.';
      return (
        `${slug === undefined ? 'It has no slug.' : `Publishers that deliver to ${slug} get a 404.`} ${byId} Its nonces and ` +
        'idempotency keys count for a trigger that takes its slug: at any other a repeated delivery counts as new.'
      );
    }
    case 'cron':
      return 'It no longer fires. Its paused state and changes to its schedule are kept under its key.';
    case 'manual':
      return 'The flow can still be started by hand; idempotency keys sent with this trigger no longer match.';
  }
}

function renamed(change: Change, trigger: Trigger, { key, newKey }: { key: string; newKey: string }): Finding {
  const other = change.after.triggers[newKey];
  return findingAt(['triggers', key], {
    rule: 'trigger-renamed',
    class: 'caution',
    before: { key, ...entriesOf(trigger) },
    after: other === undefined ? newKey : { key: newKey, ...entriesOf(other) },
    message: `The ${trigger.type} trigger \`${key}\` was renamed to \`${newKey}\`.`,
    consequence: `${RENAMED[trigger.type]}${learnsAgain(other)}`,
    advice: 'Keep the trigger’s key; only records show it.',
    live: startedBy(change, key),
  });
}

const RENAMED = {
  webhook:
    'Accepted nonces and idempotency keys move with it: a delivery that was accepted under the old key is a replay under the ' +
    'new one. Records keep the old key. Runs in flight continue.',
  cron:
    'The state of a schedule is kept by the key of the trigger: under the new one it is not paused, and a schedule that was ' +
    'changed on the dashboard reverts to the manifest. Runs in flight continue.',
  manual:
    'Idempotency keys move with it: one that was used under the old key starts no run under the new one. Runs in flight continue.',
} as const;

function learnsAgain(trigger: Trigger | undefined): string {
  if (trigger?.type !== 'webhook' || !learnsKey(trigger.inputs)) return '';
  return (
    ' The learned key belongs to the key of the trigger too: under the new key it does not verify deliveries, and no ' +
    'handshake sets another one. Rename the trigger back, or forget its learned key and create the webhook again.'
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

const triggerAdded: ChangeRule = (change) =>
  newTriggers(change).map(([key, trigger]) =>
    findingAt(['triggers', key], {
      rule: 'trigger-added',
      class: 'safe',
      after: jsonOf(trigger),
      message: `The ${trigger.type} trigger \`${key}\` is new.`,
      consequence: `Existing triggers and runs in flight do not change.${gatesOf(trigger)}`,
    }),
  );

function newTriggers(change: Change): [string, Trigger][] {
  const renamed = new Set(renamedTriggers(change).values());
  const { before, after } = change;
  return Object.entries(after.triggers).filter(([key]) => !Object.hasOwn(before.triggers, key) && !renamed.has(key));
}

/** A new trigger is safe for runs, but the reader must see which deliveries it lets in. */
function gatesOf(trigger: Trigger): string {
  if (trigger.type !== 'webhook') return '';
  const { webhookSignatureScheme: scheme, webhookEnforcementMode: mode } = trigger.inputs;
  const checked =
    scheme === undefined
      ? ' No signature is checked: anyone who knows its URL can start runs.'
      : ` Deliveries are signed by the scheme ${scheme}.`;
  const learns = learnsKey(trigger.inputs) ? ' The first sender of a handshake decides its key.' : '';
  return `${checked}${learns}${mode === 'Off' || mode === 'Audit' ? ` Its mode is ${mode}: no gate refuses anything.` : ''}`;
}

const LOST = {
  webhook: 'Publishers that deliver to it get a 404.',
  cron: 'It no longer fires on its schedule.',
  manual: 'It can no longer be named as a manual trigger; the flow can still be started by hand.',
} as const;

const triggerTypeChanged: ChangeRule = (change) =>
  keptTriggers(change)
    .filter(({ before, after }) => before.type !== after.type)
    .map(({ key, before, after }) =>
      findingAt(['triggers', key], {
        rule: 'trigger-type-changed',
        class: 'caution',
        before: jsonOf(before),
        after: jsonOf(after),
        message: `The trigger \`${key}\` was a ${before.type} trigger and is a ${after.type} trigger.`,
        consequence: `${LOST[before.type]} Runs in flight continue; their records name a trigger that now has another type.`,
        advice: `Give the new trigger its own key. ${DRAIN}`,
      }),
    );

/** The first webhook trigger gets deliveries to the id of the flow: the order of triggers decides who judges them. */
const firstWebhookChanged: ChangeRule = (change) => {
  const before = firstWebhook(change.before);
  const after = firstWebhook(change.after);
  if (before === undefined || after === undefined || before === after) return [];
  if (renamedTriggers(change).get(before) === after) return [];
  return [
    findingAt(['triggers'], {
      rule: 'first-webhook-changed',
      class: 'caution',
      before,
      after,
      message: `The first webhook trigger is \`${after}\` and was \`${before}\`.`,
      consequence:
        `Deliveries to the id of the flow go to \`${after}\` and its gates. Deliveries to a slug go ` +
        'where they went before, and runs in flight are not affected.',
      advice: 'Keep the order of webhook triggers, or have publishers call the slug.',
    }),
  ];
};

function firstWebhook({ triggers }: Manifest): string | undefined {
  return Object.entries(triggers).find(([, { type }]) => type === 'webhook')?.[0];
}

const slugChanged: ChangeRule = (change) =>
  webhookPairs(change).flatMap(({ key, before: { webhookSlug: before }, after: { webhookSlug: after } }) => {
    if (before === after) return [];
    const isSameRoute = before === undefined || before.toLowerCase() === after?.toLowerCase();
    return [
      findingAt(['triggers', key, 'inputs', 'webhookSlug'], {
        rule: 'slug-changed',
        class: isSameRoute ? 'safe' : 'caution',
        before,
        after,
        message: `The slug of \`${key}\` ${before === undefined ? 'is new' : after === undefined ? 'was removed' : 'changed'}.`,
        consequence: isSameRoute
          ? 'Every URL keeps working: slugs are case-insensitive.'
          : `After the deploy, publishers that deliver to ${before} get a 404. Runs in flight are not affected.`,
        ...(isSameRoute
          ? {}
          : { advice: 'Add a second webhook trigger with the new slug, and move publishers to it first.' }),
      }),
    ];
  });

/** Inputs of manual triggers, which only people read. */
const triggerInputsChanged: ChangeRule = (change) =>
  keptTriggers(change).flatMap(({ key, before, after }) => {
    if (before.type !== 'manual' || after.type !== 'manual') return [];
    return differences(jsonOf(before.inputs), jsonOf(after.inputs)).map((difference) =>
      findingAt(['triggers', key, 'inputs', ...difference.at], {
        rule: 'trigger-inputs-changed',
        class: 'safe',
        before: difference.before,
        after: difference.after,
        message: `Inputs of the manual trigger \`${key}\` were ${difference.kind}.`,
        consequence: 'No run reads them.',
      }),
    );
  });

/** Objects of triggers besides their inputs; their features give the rules. */
const objectsChanged: ChangeRule = (change) =>
  triggerPairs(change).flatMap(({ key, before, after }) =>
    Object.entries(TRIGGER_OBJECTS).flatMap(([name, object]) => {
      const [one, other] = [before, after].map((trigger) => jsonOf(Reflect.get(trigger, name)));
      if (isSame(one ?? null, other ?? null)) return [];
      const { what, of, subject = 'How', ...said } = object.changed(one, other);
      return [
        findingAt(['triggers', key, name], {
          ...said,
          rule: `${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}-changed`,
          before: one,
          after: other,
          message: `${subject} ${of === undefined ? '' : `${of} of `}\`${key}\` ${what}`,
          ...(of !== undefined && { live: startedBy(change, key) }),
        }),
      ];
    }),
  );

const RECALCULATED: CronField = {
  consequence:
    'The next tick is recalculated within a minute of the deploy, when schedules are synchronised; ' +
    'runs in flight are not affected. A paused trigger stays paused, and a schedule that was changed on the dashboard ' +
    'keeps that change.',
  advice: 'Pause the trigger before the deploy and resume it afterwards if a tick in between would do harm.',
};

type CronField = Pick<Finding, 'consequence' | 'advice'>;
type CronInputs = CronTrigger['inputs'];

const CRON_FIELDS: { readonly [Field in keyof CronInputs]-?: CronField & { rule: string; name: string } } = {
  cronExpression: { rule: 'cron-changed', name: 'The cron expression', ...RECALCULATED },
  timeZone: { rule: 'time-zone-changed', name: 'The time zone', ...RECALCULATED },
  onMissed: {
    rule: 'on-missed-changed',
    name: 'The handling of missed ticks',
    consequence: 'It applies when a tick was missed. Runs in flight are not affected.',
  },
};

const cronChanged: ChangeRule = (change) =>
  keptTriggers(change).flatMap(({ key, before, after }) => {
    if (before.type !== 'cron' || after.type !== 'cron') return [];
    const [one, other] = [before.inputs, after.inputs];
    return (Object.keys(CRON_FIELDS) as (keyof CronInputs)[])
      .filter((field) => one[field] !== other[field])
      .map((field) => {
        const { name, ...texts } = CRON_FIELDS[field];
        return findingAt(['triggers', key, 'inputs', field], {
          ...texts,
          class: 'safe',
          before: one[field],
          after: other[field],
          message: `${name} of \`${key}\` changed.`,
        });
      });
  });

const OFF = {
  webhook:
    'Deliveries to it get 403 `flow_disabled` and start nothing; their records are kept, and they can be redelivered later.',
  cron: 'It does not fire, and no tick is made up for later.',
  manual: 'Nobody starts the flow by it.',
} as const;

const triggerSwitched: ChangeRule = (change) =>
  triggerPairs(change).flatMap(({ key, before, after }) => {
    if (before.enabled === after.enabled) return [];
    const isOff = after.enabled === false;
    return [
      findingAt(['triggers', key, 'enabled'], {
        rule: isOff ? 'trigger-switched-off' : 'trigger-switched-on',
        class: isOff ? 'caution' : 'safe',
        before: isOff,
        after: !isOff,
        message: `The ${after.type} trigger \`${key}\` is switched ${isOff ? 'off' : 'on again'}.`,
        consequence: isOff ? `${OFF[after.type]} Runs in flight continue.` : `It starts runs again.${gatesOf(after)}`,
        ...(isOff && {
          advice: 'Tell its publishers or callers first: what they send is refused until it is on again.',
        }),
        live: startedBy(change, key),
      }),
    ];
  });

type FieldOf<Any> = Any extends unknown ? keyof Any : never;

/** Every field of a trigger, whatever its type. */
const FIELD_RULES: Readonly<Record<Exclude<FieldOf<Trigger>, keyof ObjectsOfTrigger>, readonly ChangeRule[]>> = {
  type: [triggerTypeChanged],
  enabled: [triggerSwitched],
  inputs: [slugChanged, cronChanged, triggerInputsChanged, secretsChanged, gatesChanged],
};

export const triggerRules: readonly ChangeRule[] = [
  triggerRemoved,
  triggerAdded,
  firstWebhookChanged,
  ...Object.values(FIELD_RULES).flat(),
  objectsChanged,
];
