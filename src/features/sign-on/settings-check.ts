import type { Settings, SettingsCheck } from '../../config/settings-schema.ts';
import { isGroup } from '../../config/tokens.ts';
import { familiesCovered } from '../../webhooks/networks/addresses.ts';

/** A line for each missing setting without which a proxy's headers would sign in everyone, or no one. */
function signOnMistakes(settings: Settings): string[] {
  const { authUserHeader: user, authGroupsHeader: groups, trustedProxies, tokens } = settings;
  if (user === undefined && groups === undefined) {
    const unread = 'SLUICE_TOKENS: names groups, but nothing says who is of one; set SLUICE_AUTH_USER_HEADER and';
    return tokens.some(isGroup) ? [`${unread} SLUICE_AUTH_GROUPS_HEADER`] : [];
  }
  if (user === undefined || groups === undefined) {
    return ['SLUICE_AUTH_USER_HEADER, SLUICE_AUTH_GROUPS_HEADER: set both or neither'];
  }
  const lines: string[] = [];
  if (user === groups) lines.push('SLUICE_AUTH_GROUPS_HEADER: is the same header as SLUICE_AUTH_USER_HEADER');
  if (trustedProxies.length === 0) {
    lines.push('SLUICE_AUTH_USER_HEADER: is believed from SLUICE_TRUSTED_PROXIES alone, which names none; set it');
  } else if (familiesCovered(trustedProxies).length > 0) {
    lines.push('SLUICE_TRUSTED_PROXIES: includes every public address, so that anybody could sign in as anybody');
  }
  return lines;
}

export const signOnSettingsCheck: SettingsCheck = {
  mistakes: signOnMistakes,
  warnings: ({ authGroupsHeader, tokens }) =>
    // Not an error: a reload must be able to lock everyone out.
    authGroupsHeader === undefined || tokens.some(isGroup)
      ? []
      : [
          {
            name: 'authGroupsHeader',
            message: 'SLUICE_TOKENS names no group: nobody whom the proxy signs in may do anything',
          },
        ],
};
