import { describeSettings, type Settings } from './settings-schema.ts';
import { type Grant, type GroupGrant, isGroup, isToken, type NamedToken, SCOPES } from './tokens.ts';

/** Who has access to the dashboard. */
export type DashboardAccess =
  | {
      readonly kind: 'credentials';
      readonly basic?: { readonly user: string; readonly password: string } | undefined;
      /** Has all scopes. */
      readonly token?: string | undefined;
      readonly tokens?: readonly NamedToken[];
      /** What people can do, by their groups. */
      readonly groups?: readonly GroupGrant[];
    }
  /** No credentials: anyone on this machine has access, because the listener is on a loopback address. */
  | { readonly kind: 'loopback' }
  /** No credentials, on purpose: anyone who reaches the listener has access. */
  | { readonly kind: 'open' };

export type Credentials = Extract<DashboardAccess, { kind: 'credentials' }>;

/** One way to prove an identity. */
export interface Credential extends Grant {
  /** Unique among all credentials, whatever their names. A session refers to its credential by id, never by name. */
  readonly id: string;
  /** The name that people see. */
  readonly name: string;
  readonly secret: { readonly user: string; readonly password: string } | { readonly token: string };
}

type Given = Pick<Settings, 'dashboardUser' | 'dashboardPassword' | 'dashboardToken' | 'tokens'>;

/** Whether a setting names who has access; then nobody else has it. */
export function hasCredentials(settings: Settings): boolean {
  return describeSettings().some(({ name, admits }) => {
    if (admits === undefined) return false;
    const value = settings[name];
    return value !== undefined && !(Array.isArray(value) && value.length === 0);
  });
}

/** How the dashboard is protected; checks of the settings made sure that it is open only on purpose. */
export function dashboardAccess(settings: Settings): DashboardAccess {
  if (hasCredentials(settings)) return credentialsOf(settings);
  return { kind: settings.dashboardAuth === 'none' ? 'open' : 'loopback' };
}

export function credentialsOf(settings: Given): Credentials {
  const { dashboardUser: user, dashboardPassword: password, dashboardToken: token, tokens } = settings;
  return {
    kind: 'credentials',
    basic: user === undefined || password === undefined ? undefined : { user, password },
    token,
    tokens: tokens.filter(isToken),
    groups: tokens.filter(isGroup),
  };
}

/** Lists every credential; those of SLUICE_DASHBOARD_USER and SLUICE_DASHBOARD_TOKEN have all scopes. */
export function listCredentials({ basic, token, tokens = [] }: Credentials): readonly Credential[] {
  return [
    ...(basic === undefined ? [] : [{ id: 'user', name: basic.user, scopes: SCOPES, secret: basic }]),
    ...(token === undefined ? [] : [{ id: 'token', name: 'token', scopes: SCOPES, secret: { token } }]),
    ...tokens.map((named) => ({ id: `named ${named.name}`, ...named, secret: { token: named.token } })),
  ];
}

/** One line per name or token that two credentials share: the activity list must be unambiguous. Quotes no token. */
export function sharedBetween(settings: Given): string[] {
  const { dashboardUser, dashboardToken, tokens } = settings;
  const takenBy = (name: string | undefined) => {
    if (name === 'token' && dashboardToken !== undefined) return ['SLUICE_DASHBOARD_TOKEN'];
    return name === 'anyone' || name === 'unknown' ? ['parties without credentials'] : [];
  };
  const taken = (who: string) => `has the name under which the activity list shows ${who}; choose another`;
  return [
    ...takenBy(dashboardUser).map((who) => `SLUICE_DASHBOARD_USER: ${taken(who)}`),
    ...tokens.filter(isToken).flatMap(({ name, token }) => {
      const line = (what: string) => [`SLUICE_TOKENS: the token ${name} ${what}`];
      if (name === dashboardUser) return line('has the same name as SLUICE_DASHBOARD_USER; choose another');
      if (token === dashboardToken) return line('has the same value as SLUICE_DASHBOARD_TOKEN; choose another');
      return takenBy(name).flatMap((who) => line(taken(who)));
    }),
  ];
}
