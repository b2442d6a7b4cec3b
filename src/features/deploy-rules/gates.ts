import { findingAt, jsonOf, type ServiceSettings } from '../../deploys/changes/revisions.ts';
import {
  type AllInputs,
  type Effect,
  type FieldVerdict,
  WEBHOOK_FIELDS,
  WEBHOOK_ROWS,
  type WebhookField,
  type WebhookInputs,
  type WebhookRow,
} from '../../manifest/webhook-fields.ts';
import type { Finding, FindingClass } from '../../model/finding.ts';
import { isSame } from '../../model/json.ts';
import { type ChangeRule, type WebhookPair, webhookPairs } from './change.ts';

const FOUND: Readonly<Record<Effect, { readonly rule: string; readonly class: FindingClass }>> = {
  weaker: { rule: 'gate-weakened', class: 'caution' },
  other: { rule: 'gate-changed', class: 'caution' },
  stronger: { rule: 'gate-strengthened', class: 'safe' },
  same: { rule: 'webhook-answer-changed', class: 'safe' },
};

/**
 * Rules for every webhook field without its own rule: who gets in, and the answers. No run in flight reads these
 * fields.
 */
export const gatesChanged: ChangeRule = (change) =>
  webhookPairs(change).flatMap((pair) =>
    fieldsOf(pair).flatMap((field): Finding[] => {
      const { key, before, after } = pair;
      const verdict = Object.hasOwn(WEBHOOK_ROWS, field) ? verdictOn(field, pair, change.settings) : UNKNOWN;
      if (verdict === 'own rule' || isSame(jsonOf(before[field]), jsonOf(after[field]))) return [];
      const { effect, consequence, addresses } = verdict;
      const finding = findingAt(['triggers', key, 'inputs', field], {
        ...FOUND[effect],
        before: jsonOf(before[field]),
        after: jsonOf(after[field]),
        message:
          addresses === undefined
            ? `${field} of \`${key}\` ${verbOf(before[field], after[field])}.`
            : `The address gate of \`${key}\` accepts ${addresses}.`,
        consequence: `${consequence} Runs in flight are not affected.`,
        ...(effect === 'weaker' || effect === 'other'
          ? { advice: 'Check that this is intended: it decides who may start runs.' }
          : {}),
      });
      return [finding];
    }),
  );

/** A snapshot of another release can have fields that this one does not know. */
const UNKNOWN: FieldVerdict = { effect: 'other', consequence: 'After the deploy, different deliveries may pass.' };

function fieldsOf({ before, after }: WebhookPair): WebhookField[] {
  const fields = new Set([...WEBHOOK_FIELDS.all, ...Object.keys(before), ...Object.keys(after)]);
  return [...fields].filter((field): field is WebhookField => /^webhook/.test(field));
}

/** Compares effective values: if a trigger leaves a field out, the service's setting applies. */
function verdictOn<Field extends WebhookField>(
  field: Field,
  { before, after }: WebhookPair,
  service: ServiceSettings,
): FieldVerdict | 'own rule' {
  const { change }: WebhookRow<Field> = WEBHOOK_ROWS[field];
  const { rule } = change;
  if (rule === 'own rule') return rule;
  return rule(before[field], after[field], { from: allOf(before), to: allOf(after), service });
}

const allOf = (inputs: WebhookInputs) => inputs as AllInputs;

function verbOf(before: unknown, after: unknown): string {
  if (before === undefined) return 'is new';
  return after === undefined ? 'was removed' : 'changed';
}
