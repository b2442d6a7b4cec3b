import {
  type Gate,
  GateConfigurationError,
  type GatePlugin,
  type GateSettings,
  type Verdict,
  type WebhookInputs,
} from '../gate.ts';
import {
  type AddressMatcher,
  type AddressSet,
  allowedAddresses,
  compileAddresses,
  parseAddress,
} from '../networks/addresses.ts';
import { findPreset } from '../networks/presets.ts';

/** Passes addresses of the allow list, or all addresses without one, except those of the deny list. */
export const ipGate: GatePlugin<GateSettings> = {
  name: 'ip',
  prepare({ inputs }): Gate | undefined {
    const allow = allowMatcher(inputs);
    const deny = denyMatcher(inputs);
    if (allow === undefined && deny === undefined) return undefined;
    return {
      name: 'ip',
      check: ({ clientIp }) => checkAddress(clientIp, { allow, deny }),
      whenFetched: 'not asked',
    };
  },
};

/** The addresses that pass; undefined without a list, when even clients without a known address pass. */
export function passingAddresses(inputs: WebhookInputs): AddressSet | undefined {
  const allow = allowMatcher(inputs);
  const deny = denyMatcher(inputs);
  if (allow === undefined && deny === undefined) return undefined;
  return allowedAddresses(allow?.addresses, deny?.addresses);
}

function checkAddress(
  clientIp: string,
  { allow, deny }: { allow: AddressMatcher | undefined; deny: AddressMatcher | undefined },
): Verdict {
  // A deny list cannot tell whether a client without an address is on it.
  if (parseAddress(clientIp) === undefined) {
    return { passed: false, reason: 'ip_not_allowed', detail: 'the address of the client is not known' };
  }
  const allowed = allow?.match(clientIp);
  if (allow !== undefined && allowed === undefined) {
    return { passed: false, reason: 'ip_not_allowed', detail: `${clientIp} is not in the allow list` };
  }
  const denied = deny?.match(clientIp);
  if (denied !== undefined) {
    return {
      passed: false,
      reason: 'ip_denied',
      detail: `${clientIp} is in the deny list, under ${denied}`,
      evidence: { facts: { ip: { matchedEntry: denied } } },
    };
  }
  return { passed: true, evidence: { facts: { ip: { matchedEntry: allowed ?? null } } } };
}

/**
 * Joins the list and the presets. An empty list is refused: an operator who meant to allow no address must not allow
 * all of them. No preset is empty.
 */
function allowMatcher(inputs: WebhookInputs): AddressMatcher | undefined {
  const { webhookIpAllowList: list, webhookIpAllowListPreset: preset, webhookIpAllowListPresets: presets } = inputs;
  if (list === undefined && preset === undefined && presets === undefined) return undefined;
  const entries = [
    ...notEmpty(list, 'webhookIpAllowList'),
    ...presetEntries(preset === undefined ? undefined : [preset], 'webhookIpAllowListPreset'),
    ...presetEntries(presets, 'webhookIpAllowListPresets'),
  ];
  return compileAddresses(entries, 'webhookIpAllowList');
}

/** An empty list denies no address, as it says. */
function denyMatcher({ webhookIpDenyList: list = [] }: WebhookInputs): AddressMatcher | undefined {
  return list.length === 0 ? undefined : compileAddresses(list, 'webhookIpDenyList');
}

function notEmpty(list: readonly string[] | undefined, field: string): readonly string[] {
  if (list?.length === 0) throw new GateConfigurationError(field, 'is an empty list; leave it out, or name an entry');
  return list ?? [];
}

function presetEntries(names: readonly string[] | undefined, field: string): readonly string[] {
  return notEmpty(names, field).flatMap((name) => findPreset(name, field).entries);
}
