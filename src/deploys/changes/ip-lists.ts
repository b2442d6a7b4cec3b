import { isSame } from '../../manifest/diff.ts';
import type { WebhookInputs } from '../../manifest/webhook-inputs.ts';
import type { Finding } from '../../model/finding.ts';
import { type ChangeRule, findingAt, jsonOf, type WebhookPair, webhookPairs } from './change.ts';

const ALLOW_FIELDS = ['webhookIpAllowList', 'webhookIpAllowListPreset', 'webhookIpAllowListPresets'] as const;

/** Who may deliver by address: the sources of the allow list are one list, as the gate reads them. */
export const ipListsChanged: ChangeRule = (change) =>
  webhookPairs(change).flatMap((pair) => [...allowFindings(pair), ...denyFindings(pair)]);

function allowFindings({ key, before, after }: WebhookPair): Finding[] {
  const fields = ALLOW_FIELDS.filter((field) => !isSame(jsonOf(before[field]), jsonOf(after[field])));
  const one = allowEntries(before);
  const other = allowEntries(after);
  const added = [...other].filter((entry) => !one.has(entry));
  const removed = [...one].filter((entry) => !other.has(entry));
  const isOpened = one.size > 0 && (other.size === 0 || added.length > 0);
  return fields.map((field) =>
    findingAt(['triggers', key, 'inputs', field], {
      before: jsonOf(before[field]),
      after: jsonOf(after[field]),
      ...(isOpened
        ? weakened(key, other.size === 0 ? 'Every address may deliver.' : `These may deliver too: ${added.join(', ')}.`)
        : strengthened(key, one.size === 0 ? 'Only the addresses of the list may deliver.' : gone(removed))),
    }),
  );
}

function denyFindings({ key, before, after }: WebhookPair): Finding[] {
  const { webhookIpDenyList: one = [] } = before;
  const { webhookIpDenyList: other = [] } = after;
  if (isSame(jsonOf(before.webhookIpDenyList), jsonOf(after.webhookIpDenyList))) return [];
  const freed = one.filter((entry) => !other.map(normal).includes(normal(entry)));
  return [
    findingAt(['triggers', key, 'inputs', 'webhookIpDenyList'], {
      before: jsonOf(before.webhookIpDenyList),
      after: jsonOf(after.webhookIpDenyList),
      ...(freed.length > 0
        ? weakened(key, `These are no longer refused: ${freed.join(', ')}.`)
        : strengthened(key, 'No address that was refused is let in.')),
    }),
  ];
}

function weakened(key: string, consequence: string): Omit<Finding, 'path'> {
  return {
    rule: 'gate-weakened',
    class: 'caution',
    message: `The address gate of \`${key}\` lets more in.`,
    consequence: `${consequence} Entries are compared as written, so a range inside another one counts as new. Runs in flight are not touched.`,
    advice: 'Make sure that this is meant: it says who may start runs.',
  };
}

function strengthened(key: string, consequence: string): Omit<Finding, 'path'> {
  return {
    rule: 'gate-strengthened',
    class: 'safe',
    message: `The address gate of \`${key}\` lets in no address that it refused before.`,
    consequence: `${consequence} Runs in flight are not touched.`,
  };
}

function gone(removed: readonly string[]): string {
  return removed.length === 0
    ? 'The list means the same as before.'
    : `These may no longer deliver: ${removed.join(', ')}.`;
}

function allowEntries(inputs: WebhookInputs): Set<string> {
  const preset = inputs.webhookIpAllowListPreset === undefined ? [] : [inputs.webhookIpAllowListPreset];
  const presets = [...preset, ...(inputs.webhookIpAllowListPresets ?? [])].map((name) => `preset ${normal(name)}`);
  return new Set([...(inputs.webhookIpAllowList ?? []).map(normal), ...presets]);
}

function normal(entry: string): string {
  return entry.trim().toLowerCase();
}
