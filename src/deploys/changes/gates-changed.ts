import { isSame } from '../../manifest/diff.ts';
import { SECRET_WEBHOOK_FIELDS, WEBHOOK_FIELDS } from '../../manifest/webhook-inputs.ts';
import type { Finding } from '../../model/finding.ts';
import type { WebhookInputs } from '../../model/manifest.ts';
import { type ChangeRule, findingAt } from './change.ts';
import { FIELD_RULES, type FieldVerdict } from './gate-fields.ts';
import { jsonOf } from './json-of.ts';
import { webhookPairs } from './webhook-pairs.ts';

/** Spoken of by rules of their own. */
const ELSEWHERE: ReadonlySet<string> = new Set([
  'webhookSlug',
  ...SECRET_WEBHOOK_FIELDS,
  'webhookIpAllowList',
  'webhookIpDenyList',
  'webhookIpAllowListPreset',
  'webhookIpAllowListPresets',
]);

const CLASSES = { weaker: 'caution', other: 'caution', stronger: 'safe', same: 'safe' } as const;
const RULES = {
  weaker: 'gate-weakened',
  other: 'gate-changed',
  stronger: 'gate-strengthened',
  same: 'webhook-answer-changed',
} as const;

/** Every other field of a webhook trigger: who gets in, and what is answered. No run in flight reads any of them. */
export const gatesChanged: ChangeRule = (change) =>
  webhookPairs(change).flatMap(({ key, before, after }) =>
    fieldsOf(before, after).map((field): Finding => {
      const judge = FIELD_RULES[field];
      const verdict: FieldVerdict = judge?.(before, after) ?? {
        effect: 'other',
        consequence: 'Other deliveries may pass from the deploy on.',
      };
      const { effect, consequence } = verdict;
      return findingAt(['triggers', key, 'inputs', field], {
        rule: RULES[effect],
        class: CLASSES[effect],
        before: jsonOf(before[field]),
        after: jsonOf(after[field]),
        message: `${field} of \`${key}\` ${verbOf(before[field], after[field])}.`,
        consequence: `${consequence} Runs in flight are not touched.`,
        ...(effect === 'weaker' || effect === 'other'
          ? { advice: 'Make sure that this is meant: it says who may start runs.' }
          : {}),
      });
    }),
  );

function fieldsOf(before: WebhookInputs, after: WebhookInputs): (keyof WebhookInputs)[] {
  const fields = new Set([...WEBHOOK_FIELDS, ...Object.keys(before), ...Object.keys(after)]);
  return [...fields].filter(isField).filter((field) => {
    return !ELSEWHERE.has(field) && !isSame(jsonOf(before[field]), jsonOf(after[field]));
  });
}

function isField(field: string): field is keyof WebhookInputs {
  return /^webhook/.test(field);
}

function verbOf(before: unknown, after: unknown): string {
  if (before === undefined) return 'is new';
  return after === undefined ? 'is gone' : 'changed';
}
