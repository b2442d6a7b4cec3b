import { z } from 'zod';
import { type FieldVerdict, field, type Reads, type Triggers } from './row.ts';
import { text } from './values.ts';
import { normal } from './verdicts.ts';

const listEntry = z.string().trim().min(1, { error: 'is an empty entry' });
// An empty list is refused: readers should not have to guess whether it accepts no address or every one.
const textList = z.union([
  z.array(listEntry).min(1),
  z
    .string()
    .transform((given) => given.split(','))
    .pipe(z.array(listEntry)),
]);

const ofAddresses = { holds: 'value', decides: ['ip'], readBy: 'every scheme', docs: 'addresses' } as const;

export const addressFields = {
  webhookIpAllowList: field({
    ...ofAddresses,
    schema: textList.describe('CIDRs, ranges, wildcards and addresses that may deliver.'),
    change: {
      rule: allowList,
      edits: {
        ladders: [[['10.0.0.1'], ['10.0.0.1', '::1'], undefined]],
        oneWay: [
          [['10.0.0.1'], ['::1'], 'weaker'],
          [['10.0.0.1', '::1'], '::1, 10.0.0.1', 'stronger'],
        ],
      },
    },
    plain: ['192.0.2.1'],
  }),
  webhookIpDenyList: field({
    ...ofAddresses,
    schema: textList.describe('CIDRs, ranges, wildcards and addresses that may not deliver.'),
    change: {
      rule: denyList,
      edits: {
        ladders: [[['10.0.0.1', '::1'], ['::1'], undefined]],
        oneWay: [[['10.0.0.1'], ['::1'], 'weaker']],
      },
    },
    plain: ['192.0.2.2'],
  }),
  webhookIpAllowListPreset: field({
    ...ofAddresses,
    schema: text.describe('Name of one list of a publisher’s addresses.'),
    change: {
      rule: allowList,
      edits: { ladders: [['github', undefined]], oneWay: [['github', 'stripe', 'weaker']] },
    },
    plain: 'private',
  }),
  webhookIpAllowListPresets: field({
    ...ofAddresses,
    schema: textList.describe('Names of lists of publishers’ addresses.'),
    change: { rule: allowList, edits: { ladders: [['github', 'github, stripe', undefined]] } },
    plain: ['private'],
  }),
};

type AllowInputs = Reads<'webhookIpAllowList' | 'webhookIpAllowListPresets', readonly string[]> &
  Reads<'webhookIpAllowListPreset', string>;

/** Compares accepted addresses: all sources of the allow list form one list, as in the gate. */
function allowList(_before: unknown, _after: unknown, { from, to }: Triggers<AllowInputs>): FieldVerdict {
  const one = allowEntries(from);
  const other = allowEntries(to);
  const added = [...other].filter((entry) => !one.has(entry));
  if (one.size > 0 && other.size === 0) return moreAddresses('Every address may deliver.');
  if (one.size > 0 && added.length > 0) return moreAddresses(`These may deliver too: ${added.join(', ')}.`);
  const removed = [...one].filter((entry) => !other.has(entry));
  return noMoreAddresses(one.size === 0 ? 'Only the addresses of the list may deliver.' : gone(removed));
}

function denyList(one: readonly string[] = [], other: readonly string[] = []): FieldVerdict {
  const freed = one.filter((entry) => !other.map(normal).includes(normal(entry)));
  return freed.length > 0
    ? moreAddresses(`These are no longer refused: ${freed.join(', ')}.`)
    : noMoreAddresses('No address that was refused before may deliver now.');
}

function moreAddresses(which: string): FieldVerdict {
  const consequence = `${which} Entries are compared as written, so a range inside another one counts as new.`;
  return { effect: 'weaker', consequence, addresses: 'more addresses' };
}

function noMoreAddresses(consequence: string): FieldVerdict {
  return { effect: 'stronger', consequence, addresses: 'no address that it refused before' };
}

function gone(removed: readonly string[]): string {
  return removed.length === 0
    ? 'The list means the same as before.'
    : `These may no longer deliver: ${removed.join(', ')}.`;
}

function allowEntries(inputs: AllowInputs): Set<string> {
  const preset = inputs.webhookIpAllowListPreset === undefined ? [] : [inputs.webhookIpAllowListPreset];
  const presets = [...preset, ...(inputs.webhookIpAllowListPresets ?? [])].map((name) => `preset ${normal(name)}`);
  return new Set([...(inputs.webhookIpAllowList ?? []).map(normal), ...presets]);
}
