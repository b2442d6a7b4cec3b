import type { WebhookInputs } from '../../manifest/webhook-inputs.ts';
import { areAddresses } from './addresses.ts';
import {
  type Imported,
  type ImportedTrigger,
  listOf,
  type Members,
  membersIn,
  membersOf,
  NotReadable,
  objectsIn,
  quoted,
  schemeCalled,
  textOf,
} from './imported.ts';

/** Names that differ between ngrok and Sluice. */
const OTHER_NAMES: Readonly<Record<string, string>> = {
  sns: 'AmazonSns',
  coinbase: 'CoinbaseCommerce',
  facebook_graph_api: 'Meta',
  facebook_messenger: 'Meta',
  mongodb: 'MongoDbAtlas',
};

interface Rule {
  readonly members: Members;
  readonly actions: readonly Members[];
}

/** `verify-webhook` actions of traffic policies in any document: ngrok.com/docs/traffic-policy, read 2026-11. */
export function readNgrok(document: unknown): Imported {
  const policies = [...objectsIn(document, () => true)].flatMap(({ on_http_request: rules, inbound }) =>
    [rules, inbound].flatMap((list) => (Array.isArray(list) ? [rulesOf(list)] : [])),
  );
  const triggers: ImportedTrigger[] = [];
  const leftOut: string[] = [];
  for (const rules of policies) {
    for (const rule of rules) {
      for (const action of rule.actions.filter(({ type }) => type === 'verify-webhook')) {
        const trigger = triggerOf(action, rule, rules);
        if (typeof trigger === 'string') leftOut.push(`an action verify-webhook: ${trigger}`);
        else triggers.push(trigger);
      }
    }
  }
  if (triggers.length + leftOut.length === 0) {
    throw new NotReadable('there is no traffic policy with the action verify-webhook in it');
  }
  return { triggers, leftOut };
}

function rulesOf(list: readonly unknown[]): Rule[] {
  return membersIn(list).map((members) => ({ members, actions: membersIn(members.actions) }));
}

/** The trigger, or the reason why there is none. */
function triggerOf({ config: given }: Members, rule: Rule, rules: readonly Rule[]): ImportedTrigger | string {
  const config = membersOf(given) ?? {};
  const provider = textOf(config.provider);
  if (provider === undefined) return 'it names no provider';
  const scheme = schemeCalled(OTHER_NAMES[provider.toLowerCase()] ?? provider);
  if (scheme === undefined) return `Sluice has no scheme for ${quoted(provider)}`;
  const expressions = listOf(rule.members.expressions);
  // Another rule with expressions may be about other requests.
  const limits = rules.filter((it) => it === rule || listOf(it.members.expressions).length === 0);
  const actions = rules.flatMap((it) => it.actions.map((action) => ({ action, counts: limits.includes(it) })));
  const addresses = addressesOf(actions.filter(({ counts }) => counts).map(({ action }) => action));
  if (addresses === undefined) return 'its action restrict-ips has addresses that a trigger does not take';
  const others = actions.filter(
    ({ action: { type }, counts }) => type !== 'verify-webhook' && !(type === 'restrict-ips' && counts),
  );
  return {
    name: textOf(rule.members.name) ?? provider,
    verifiedBy: { scheme },
    inputs: { ...addresses, ...(config.enforce === false && { webhookEnforcementMode: 'Audit' as const }) },
    key: { at: textOf(config.secret) && `the secret of the action for ${quoted(provider)}` },
    notes: config.enforce === false ? ['enforce is false there, so the mode is Audit: everything is accepted'] : [],
    notTaken: [
      ...(expressions.length === 0 ? [] : ['the expressions of its rule, which say when it applies']),
      ...[...new Set(others.map(({ action: { type } }) => textOf(type) ?? ''))].map(
        (type) => `the action ${quoted(type)}`,
      ),
    ],
  };
}

/** The lists of all `restrict-ips` actions; undefined if a trigger cannot express them, or several apply at once. */
function addressesOf(actions: readonly Members[]): WebhookInputs | undefined {
  const limits = actions.filter(({ type }) => type === 'restrict-ips').map(({ config }) => membersOf(config) ?? {});
  if (limits.length === 0) return {};
  const [{ allow, deny, ip_policies: policies, enforce } = {}] = limits;
  if (limits.length > 1 || policies !== undefined) return undefined;
  // The action is not enforced there.
  if (enforce === false) return {};
  const lists = [allow, deny].filter((list) => list !== undefined);
  if (lists.length === 0 || !lists.every((list) => Array.isArray(list) && areAddresses(list))) return undefined;
  const [allowed, denied] = [allow, deny].map((list) => listOf(list) as readonly string[]);
  return {
    ...(allowed !== undefined && allowed.length > 0 && { webhookIpAllowList: [...allowed] }),
    ...(denied !== undefined && denied.length > 0 && { webhookIpDenyList: [...denied] }),
  };
}
