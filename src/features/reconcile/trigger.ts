import { type TriggerFacts, type TriggerObject, triggerPart } from '../../manifest/trigger-part.ts';
import { DAY_MS } from '../../model/clock.ts';
import { durationMs } from '../../model/duration.ts';
import type { Json } from '../../model/json.ts';
import { RECONCILE_RULES, type Reconcile, reconcileSchema } from './log-schema.ts';

type Problem = ReturnType<TriggerObject['problems']>[number];

const reconcile: TriggerObject<typeof reconcileSchema> = {
  schema: reconcileSchema,
  keys: [...new Set(reconcileSchema.options.flatMap(({ shape }) => Object.keys(shape)))],
  fetches: true,
  secrets: ({ from }) => RECONCILE_RULES[from].secrets,
  eventId: ({ from }) => RECONCILE_RULES[from].eventId,
  problems: (written, trigger) => [
    ...windowProblems(written, trigger),
    // The other flows of a shared slug are not asked about an event, although they may have accepted it before.
    ...(trigger.isShared
      ? [{ kind: 'error', message: 'is not accepted together with webhookShared' } satisfies Problem]
      : []),
    ...unsignedProblems(written, trigger),
    ...openUrls(written),
  ],
  // How often the log is asked, and with which token, does not matter here.
  unverified({ every, lookback, acceptUnsigned, ...log }, { verifies, asksAddress }) {
    const isOpened = verifies ? acceptUnsigned === true : asksAddress;
    return isOpened ? (log as Json) : undefined;
  },
  changed(before, after) {
    const isOpened = after?.acceptUnsigned === true && before?.acceptUnsigned !== true;
    const isMoved =
      before !== undefined &&
      after !== undefined &&
      PLACES.some((field) => Reflect.get(before, field) !== Reflect.get(after, field));
    const told = [
      ...(isOpened ? [', and accepted although no signature of it is verified'] : []),
      ...(isMoved ? [', from another place, which is sent the credentials'] : []),
    ];
    return {
      class: isOpened || isMoved ? 'caution' : 'safe',
      what: `asks its publisher for what was lost ${before === undefined ? 'is new' : 'changed'}.`,
      consequence:
        after === undefined
          ? 'Deliveries that do not arrive are lost from now on. Runs in flight are not affected.'
          : `What is sent after the deploy and does not arrive is fetched${told.join('')}${before === undefined ? '; what was sent before it is not' : ''}. Runs in flight are not affected.`,
    };
  },
};

/** Fields that decide where the credentials of a log are sent. */
const PLACES = ['baseUrl', 'loginUrl', 'url', 'shop'];

function windowProblems({ every, lookback }: Reconcile, { eventDays }: TriggerFacts): Problem[] {
  const problems: Problem[] = [];
  const [everyMs = 0, lookbackMs = 0] = [durationMs(every), durationMs(lookback)];
  if (eventDays === undefined) {
    const message = 'needs webhookEventId: else a late original of what was fetched would start a second run';
    problems.push({ kind: 'error', message });
  } else if (eventDays * DAY_MS < lookbackMs) {
    const kept = `an event is known for ${eventDays} days (webhookEventIdDays)`;
    problems.push({
      kind: 'error',
      field: 'lookback',
      message: `is ${lookback}, but ${kept}: it would be fetched again`,
    });
  }
  if (everyMs > lookbackMs) {
    const missed = 'what is sent in between and lost is never looked for';
    const message = `is ${lookback}, shorter than every, ${every}: ${missed}`;
    problems.push({ kind: 'error', field: 'lookback', message });
  }
  return problems;
}

function unsignedProblems({ from, acceptUnsigned }: Reconcile, { verifies, mode }: TriggerFacts): Problem[] {
  const field = 'acceptUnsigned';
  const { isUnsigned } = RECONCILE_RULES[from];
  if (acceptUnsigned === true && !verifies) {
    const message = 'has no effect: no scheme is named, so that nothing is verified anyway';
    return [{ kind: 'warning', field, message }];
  }
  if (mode !== 'Enforce') return [];
  if (acceptUnsigned === true) {
    const message =
      'takes what the log holds although no signature can be verified: whoever can write there starts runs';
    return [{ kind: 'weakness', field, message }];
  }
  if (isUnsigned !== true || !verifies) return [];
  const message = `is not set: the log of ${from} holds no signatures, so all that is fetched is refused, and only told`;
  return [{ kind: 'warning', field, message }];
}

function openUrls(written: Reconcile): Problem[] {
  return ['baseUrl', 'loginUrl', 'url'].flatMap((field): Problem[] => {
    const url: unknown = Reflect.get(written, field);
    if (typeof url !== 'string' || !/^http:/i.test(url)) return [];
    const message = 'is not https: whoever is on the way reads the secrets of reconcile and writes the answers';
    return [{ kind: 'weakness', field, message }];
  });
}

export const reconcileTrigger = triggerPart({ name: 'reconcile', fields: {}, objects: { reconcile } });
