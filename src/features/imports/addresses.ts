import { compileAddresses } from '../../webhooks/networks/addresses.ts';

/** Whether the trigger's lists of addresses take every one of the entries. */
export function areAddresses(entries: readonly unknown[]): entries is readonly string[] {
  if (entries.length === 0 || !entries.every((entry) => typeof entry === 'string')) return false;
  try {
    compileAddresses(entries, 'webhookIpAllowList');
    return true;
  } catch {
    return false;
  }
}
