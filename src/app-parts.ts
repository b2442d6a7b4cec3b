import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { Extensions } from './config/api.ts';
import type { PreparedExtensions } from './config/extensions.ts';
import type { Environment } from './config/settings.ts';
import type { SettingsInForce } from './config/settings-in-force.ts';
import type { Settings, SettingsInput } from './config/settings-schema.ts';
import type { DashboardServices, ServicePart } from './dashboard/services.ts';
import type { ManifestFolder } from './manifest/load.ts';
import type { Clock, ServiceClock } from './model/clock.ts';
import type { Override } from './model/finding.ts';
import type { BodySealer } from './store/sealed-body.ts';
import type { Store } from './store/store.ts';
import type { StoreKeys } from './store/store-keys.ts';
import type { Metrics } from './telemetry/metrics.ts';
import type { createLearnedKeys } from './webhooks/learned-keys.ts';

export interface AppOptions {
  readonly settings?: SettingsInput;
  readonly extensions?: Extensions;
  /** Where settings and `env:` secrets are read from; empty where not given, never the process' own. */
  readonly environment?: Environment;
  /** Called before each reload: brings the environment up to date. Where it throws `SettingsError`, it stays as it is. */
  readonly readVariables?: () => void;
  /** Relative paths start here; the working directory where not given. */
  readonly folder?: string;
  /** Clocks of the machine; one of a service is taken as it is. */
  readonly clock?: Clock | ServiceClock;
  readonly logger?: Logger;
  /** A store that is already open; closed with the app. Opened from the settings if not given. */
  readonly store?: Store;
  /** Called with the server before it gets any route, to add hooks. */
  readonly prepareServer?: (fastify: FastifyInstance) => void;
  /** Whether changes in the folder of manifests are deployed at once. */
  readonly watch?: boolean;
  /** What starts, reloads and watched changes deploy although it would be refused; nothing where not given. */
  readonly allow?: readonly Override[] | undefined;
  /** Replaces some of what the dashboard works with, such as its waiting time after wrong logins. */
  readonly dashboard?: Partial<DashboardServices>;
  /** Called when the store is lost for good: Sluice can no longer accept deliveries. */
  readonly onFatal?: (error: Error) => void;
  /** Called while the database is away, before each further try. Without it the build rejects. */
  readonly onAway?: ((error: Error) => Promise<void>) | undefined;
  /** Awaited before the schema of an existing database is changed, which may take long. */
  readonly onMigrating?: ((names: readonly string[]) => Promise<void>) | undefined;
}

/** What the rooms of a service are built from. */
export interface Parts {
  /** What the service is made of, feature by feature. */
  readonly serviceParts: readonly ServicePart[];
  readonly options: Pick<
    AppOptions,
    'prepareServer' | 'dashboard' | 'watch' | 'allow' | 'settings' | 'environment' | 'readVariables'
  >;
  readonly settings: Settings;
  readonly logger: Logger;
  readonly clock: ServiceClock;
  readonly extensions: PreparedExtensions;
  readonly manifestFolder: string;
  readonly manifests: ManifestFolder;
  readonly store: Store;
  readonly learnedKeys: ReturnType<typeof createLearnedKeys>;
  /** What the last heartbeat found. */
  readonly cluster: { replicas: number };
  /** The settings as they are now. */
  readonly inForce: SettingsInForce;
  readonly sealer: BodySealer | undefined;
  readonly metrics: Metrics;
  readonly storeKeys: StoreKeys;
}
