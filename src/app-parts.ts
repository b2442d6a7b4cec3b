import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { Extensions } from './config/api.ts';
import type { PreparedExtensions } from './config/extensions.ts';
import type { Environment } from './config/settings.ts';
import type { SettingsInForce } from './config/settings-in-force.ts';
import type { Settings, SettingsInput } from './config/settings-schema.ts';
import type { ActivityList } from './dashboard/activity.ts';
import type { DashboardServices, ServicePart } from './dashboard/services.ts';
import type { ManifestFolder } from './manifest/load.ts';
import type { Clock, ServiceClock } from './model/clock.ts';
import type { Override } from './model/finding.ts';
import type { BodySealer } from './store/sealed-body.ts';
import type { Store } from './store/store.ts';
import type { StoreKeys } from './store/store-keys.ts';
import type { Metrics } from './telemetry/metrics.ts';
import type { ProcessKeys } from './webhooks/learned-keys.ts';

export interface AppOptions {
  readonly settings?: SettingsInput;
  readonly extensions?: Extensions;
  /** Source of settings and `env:` secrets; empty if not given, never the environment of the process. */
  readonly environment?: Environment;
  /** Updates the environment before each reload. A `SettingsError` from it leaves the environment as it was. */
  readonly readVariables?: () => void;
  /** Relative paths start here; defaults to the working directory. */
  readonly folder?: string;
  /** The machine's clocks. A `ServiceClock` is used as it is. */
  readonly clock?: Clock | ServiceClock;
  readonly logger?: Logger;
  /** A store that is already open; the app closes it. Opened from the settings if not given. */
  readonly store?: Store;
  /** Called with the server before it gets any route, to add hooks. */
  readonly prepareServer?: (fastify: FastifyInstance) => void;
  /** Whether changes in the folder of manifests are deployed at once. */
  readonly watch?: boolean;
  /** Refused changes that starts, reloads and watched changes deploy anyway; none if not given. */
  readonly allow?: readonly Override[] | undefined;
  /** Replaces some of the dashboard's services, such as its waiting time after wrong logins. */
  readonly dashboard?: Partial<DashboardServices>;
  /** Called when the store is lost for good: Sluice can no longer accept deliveries. */
  readonly onFatal?: (error: Error) => void;
  /** Called before each retry while the database is unavailable. Without it, the build rejects. */
  readonly onAway?: ((error: Error) => Promise<void>) | undefined;
  /** Awaited before a migration of an existing database, which can take long. */
  readonly onMigrating?: ((names: readonly string[]) => Promise<void>) | undefined;
}

/** The input from which the rooms of a service are built. */
export interface Parts {
  /** The parts of the service, one per feature. */
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
  readonly activity: ActivityList;
  readonly learnedKeys: ProcessKeys | undefined;
  /** The number of replicas that the last heartbeat found. */
  readonly cluster: { replicas: number };
  /** The current settings. */
  readonly inForce: SettingsInForce;
  readonly sealer: BodySealer | undefined;
  readonly metrics: Metrics;
  readonly storeKeys: StoreKeys;
}
