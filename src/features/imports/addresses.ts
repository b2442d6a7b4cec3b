import { compileAddresses } from '../../webhooks/networks/addresses.ts';

/** Whether the address lists of a trigger accept every entry. */
export function areAddresses(entries: readonly unknown[]): entries is readonly string[] {
  if (entries.length === 0 || !entries.every((entry) => typeof entry === 'string')) return false;
  try {
    compileAddresses(entries, 'webhookIpAllowList');
    return true;
  } catch {
    return false;
  }
}
