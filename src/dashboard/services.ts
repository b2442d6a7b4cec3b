import type { Socket } from 'node:net';
import type {
  FastifyBaseLogger,
  FastifyInstance,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerDefault,
  RouteOptions,
} from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import type { Logger } from 'pino';
import type { z } from 'zod';
import type { DashboardAccess } from '../config/credentials.ts';
import type { PreparedExtensions } from '../config/extensions.ts';
import type { SettingsInForce } from '../config/settings-in-force.ts';
import type { Settings } from '../config/settings-schema.ts';
import type { ToldDeploy } from '../deploys/deployer.ts';
import type { Deployment } from '../deploys/deployment.ts';
import type { Catalog } from '../flows/catalog.ts';
import type { Engine, RefreshFlow, RunControl } from '../flows/engine.ts';
import type { StepHandler } from '../flows/handlers/handler.ts';
import type { Heartbeat } from '../flows/heartbeat.ts';
import type { ReplicaReports } from '../flows/runtime.ts';
import type { AttentionKind, AttentionKinds } from '../model/attention.ts';
import type { Clock, ServiceClock } from '../model/clock.ts';
import type { Reason } from '../model/delivery.ts';
import { withoutUser } from '../model/text.ts';
import type { TriggerName } from '../model/trigger-name.ts';
import type { BodySealer, DeliveryCount, FlowChange, Store } from '../store/store.ts';
import type { Sweeper } from '../sweeper.ts';
import type { LiveEvent, LiveEvents } from '../telemetry/events.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Holding } from '../webhooks/holding.ts';
import type { ProcessKeys } from '../webhooks/learned-keys.ts';
import type { ClientAddressReader, DeliveryReading } from '../webhooks/read-delivery.ts';
import type { ReceiverServices, RunAnswers } from '../webhooks/receive.ts';
import type { KeySets } from '../webhooks/schemes/standards/key-sets.ts';
import type { PreparedTrigger, TriggerTable } from '../webhooks/triggers.ts';
import type { ActivityList } from './activity.ts';
import type { Finding, Situation } from './attention/finding.ts';
import type { Logins } from './logins.ts';
import type { AccessRecord, Door, WayIn } from './way-in.ts';

/** The parts of the process that the dashboard needs. */
export interface DashboardServices {
  /** All parts of the service, in the order of their routes in the API's document. */
  readonly parts: readonly ServicePart[];
  readonly settings: Settings;
  readonly store: Store;
  readonly activity: ActivityList;
  readonly catalog: Pick<Catalog, 'find' | 'list' | 'pinned' | 'unreadable' | 'setEnabled' | 'setDraining'>;
  readonly deployment: Pick<Deployment, 'parse' | 'parseAll' | 'parseRevision' | 'deploy' | 'delete' | 'reload'>;
  readonly holding: Holding;
  readonly engine: Engine;
  readonly control: RunControl;
  /** The publishers' key sets. */
  readonly keySets: Pick<KeySets, 'listNew'>;
  readonly live: LiveEvents;
  /** Receives deliveries. */
  readonly receiver: ReceiverServices & DeliveryReading;
  /** Opens an empty store in memory, which yields to other work on the event loop. */
  readonly openSimulationStore: () => Promise<Store>;
  readonly extensions: PreparedExtensions;
  readonly metrics: Metrics;
  /** Undefined if this process is the store's sole owner. */
  readonly heartbeat: Pick<Heartbeat, 'state' | 'isFit'> | undefined;
  /** The current settings: some are read again while the service runs. */
  readonly inForce: () => Settings;
  /** The service's name for people. */
  readonly serviceName: string;
  readonly clock: ServiceClock;
  readonly newId: () => string;
  readonly logger: Logger;
  /** Whether the delivery log is in the database, and how many days deliveries and runs are both kept, or only runs. */
  readonly kept: { readonly hasLog: boolean; readonly days: number; readonly runDays: number };
  /** Distinguishes clients that log in; must not trust anything that a client can write. */
  readonly senderAddress: ClientAddressReader;
  /** Resolves after this many milliseconds; slows failed logins down. */
  readonly wait: (ms: number) => Promise<void>;
  /** A stop has begun: the process is not ready, though it may go on accepting for a while. */
  readonly isLeaving: () => boolean;
  /** It listens, and continues the work of the last process. */
  readonly isStarting: () => boolean;
  /** The process accepts no new work. */
  readonly isStopping: () => boolean;
  readonly access: DashboardAccess;
  /** The credentials and sessions in force; undefined without credentials. */
  readonly logins: Logins | undefined;
  /** The listener's address; with port 0 the actual port is read from the socket. */
  readonly listener: { readonly host: string; readonly port: number };
  /** Absolute base URL that publishers call, without a trailing slash. */
  readonly publicUrl: string | undefined;
  /** The current table; a deploy replaces it. */
  readonly triggers: () => TriggerTable;
  readonly handlers: readonly Pick<StepHandler, 'type' | 'inputs' | 'secretInputs'>[];
  /** Version of Sluice itself. */
  readonly version: string;
}

/** A Fastify instance whose routes are typed by their zod schemas. */
export type DashboardApp = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  FastifyBaseLogger,
  ZodTypeProvider
>;

/** Adds the routes of one resource. */
export type ApiRoutes = (app: DashboardApp, services: DashboardServices) => void;

/** The services that a part can use while the process runs. */
export interface Host {
  readonly store: Store;
  readonly clock: ServiceClock;
  readonly logger: Logger;
  readonly newId: () => string;
  readonly live: LiveEvents;
  /** The sockets of deliveries in flight, by id. */
  readonly senders: ReadonlyMap<string, Socket>;
  /** Makes digests under the store key; absent without one. */
  readonly sealer: { readonly keyId: string; digest(text: string): string } | undefined;
  /** The current table; a deploy replaces it. */
  readonly triggers: () => TriggerTable;
  readonly catalog: Catalog;
  readonly settings: Settings;
  readonly extensions: PreparedExtensions;
  readonly metrics: Metrics;
  readonly refresh: RefreshFlow;
  /** The current settings; a part replaces those that it read again. */
  readonly inForce: SettingsInForce;
  /** Available once every part has started. */
  readonly engine: () => Engine;
  readonly holding: () => Holding;
  readonly dashboard: () => DashboardServices;
  /** The page's address for people, without a trailing slash; undefined until it is known. */
  readonly pageUrl: () => string | undefined;
}

/** A gauge and its measurement. */
interface MeasuredGauge {
  readonly name: string;
  readonly help: string;
  /** Makes the function that is called before each scrape. If it rejects, the gauge keeps its last number. */
  readonly measure: (services: DashboardServices) => () => number | Promise<number>;
}

type FindAttention<Kind extends AttentionKind> = (
  situation: Situation,
  services: DashboardServices,
) => readonly Finding<Kind>[] | Promise<readonly Finding<Kind>[]>;

/** The rules of a part that yields these kinds. A kind that they never yield does not compile. */
export function rulesFor<Kinds extends AttentionKinds, Kind extends keyof Kinds & AttentionKind>(
  _kinds: [keyof Kinds] extends [Kind] ? Kinds : never,
  find: FindAttention<Kind>,
): FindAttention<AttentionKind> {
  return find;
}

export interface LastArrival extends TriggerName {
  /** Null if none ever arrived. */
  readonly lastAt: number | null;
}

/** The background work of a part. */
export interface RunningPart {
  /** Works every minute while the service runs; of several replicas, one at a time. */
  readonly sweeper?: Sweeper;
  /** Called when the service listens, before any step runs; again if it rejects with `StoreUnavailableError`. */
  readonly prepare?: () => Promise<void>;
  /** Called when the service listens, and after each change of the triggers. */
  readonly onTriggers?: () => void;
  /** Called once the steps run; again if it rejects with `StoreUnavailableError`. */
  readonly begin?: () => Promise<void> | void;
  /** Called when another process changed something; again if it rejects. */
  readonly onChange?: (change: FlowChange) => Promise<void>;
  /** Awaited before a deploy is answered; never rejects. */
  readonly onDeploys?: (deploys: readonly ToldDeploy[]) => Promise<void>;
  /** Called when the settings were read again. */
  readonly onSettings?: (settings: Settings) => void;
  /** Handles deliveries to flows that start no runs. Only one part can provide it. */
  readonly holding?: Holding;
  /** Answers deliveries with what their runs say. Only one part can provide it. */
  readonly runAnswers?: RunAnswers | undefined;
  /** What this replica tells the others, and learns from them. Only one part can provide it. */
  readonly replica?: ReplicaReports;
  /** Called before the service stops accepting; resolves when nothing of the part runs any more. */
  readonly stop?: () => Promise<void>;
}

/**
 * The additions of a feature, or a room of the kernel, to the service. `features/service.ts` lists the parts, and the
 * composition root passes that list on: nothing else names them.
 */
export interface ServicePart {
  readonly name: string;
  readonly routes?: readonly ApiRoutes[];
  /** Called once with the server: a hook that is added here runs first, for deliveries too. */
  readonly prepareServer?: (server: FastifyInstance, services: DashboardServices) => void;
  /** Asked only if there are credentials. Requests are tried on the ways in the order of the parts. */
  readonly wayIn?: (services: DashboardServices, door: Door) => WayIn | undefined;
  /** Records who came in and who was refused. Only one part can provide it. */
  readonly accessRecord?: (services: DashboardServices) => AccessRecord;
  /** Routes without a login: each must check access itself. */
  readonly openRoutes?: ApiRoutes;
  /** Routes that describe all routes; the list is complete once the service listens. */
  readonly documentRoutes?: (all: readonly RouteOptions[]) => ApiRoutes;
  readonly gauges?: readonly MeasuredGauge[];
  /** Finds what operators should look at. It reads data that the situation lacks itself. */
  readonly attention?: FindAttention<AttentionKind>;
  /** An event that readers of the event stream get again and again. Only one part can provide it. */
  readonly watched?: WatchedEvent;
  /** What it knows about why deliveries are refused for a reason: one sentence per cause. */
  readonly causes?: (refused: RefusedFor, services: DashboardServices) => Promise<readonly string[]>;
  /** Why this process should get no requests although the kernel knows no reason; undefined if it should. */
  readonly unready?: (services: DashboardServices) => Unfit | undefined;
  /** The last arrivals at triggers that it knows. */
  readonly arrivals?: (services: DashboardServices) => Promise<readonly LastArrival[]>;
  /** Keeps the keys that publishers hand over; without it, none is learned. Only one part can provide it. */
  readonly learnedKeys?: (given: { readonly clock: Clock; readonly sealer: BodySealer | undefined }) => ProcessKeys;
  /** Keeps interventions. Only one part can provide it. */
  readonly activity?: (store: Pick<Store, 'of'>) => ActivityList;
  readonly start?: (host: Host) => RunningPart;
}

export interface WatchedEvent {
  readonly type: LiveEvent['type'];
  readonly everyMs: number;
  /** Undefined if it failed, which the part logs; never rejects. */
  look(services: DashboardServices): Promise<LookedAt | undefined>;
}

export interface LookedAt {
  readonly data: LiveEvent['data'];
  /** The data for readers limited to some flows. */
  dataIn(sight: { has(flowId: string | null): boolean }): LiveEvent['data'];
}

/** Why a process should get no requests. */
export interface Unfit {
  readonly reason: 'heartbeat_overdue' | 'schema_outgrown' | 'clock_offset' | 'changes_unseen' | 'secrets_unreadable';
  readonly message: string;
}

interface RefusedFor extends Pick<DeliveryCount, 'flowId' | 'triggerKey'> {
  readonly reason: Reason;
  /** Time of the newest of them: milliseconds since the Unix epoch. */
  readonly at: number;
  /** Set for a single delivery. */
  readonly id?: string;
}

/** Why deliveries are refused, if a part knows more than the reason. */
export async function causesOf(refused: RefusedFor, services: DashboardServices): Promise<string[]> {
  const found = await Promise.all(services.parts.map(({ causes }) => causes?.(refused, services) ?? []));
  return found.flat();
}

export const servicePart = (part: ServicePart): ServicePart => part;

type Schemas = Readonly<Record<string, z.ZodType>>;

/** A feature's additions to a webhook in views of flows. `features/trigger-view.ts` lists the views. */
export interface TriggerView<Fields extends Schemas> {
  readonly fields: Fields;
  of(trigger: PreparedTrigger): { readonly [Name in keyof Fields]: z.input<Fields[Name]> };
}

export const triggerView = <const Fields extends Schemas>(view: TriggerView<Fields>): TriggerView<Fields> => view;

/** The external address of this process: the operator's setting without its password, or the listener. */
export function baseUrlOf(app: Pick<DashboardApp, 'server'>, services: DashboardServices): string {
  const { publicUrl } = services;
  return publicUrl === undefined ? listenerUrl(services, portOf(app, services)) : withoutUser(publicUrl);
}

/** Like `baseUrlOf`; undefined until the system has chosen the port. */
export function knownBaseUrl(app: Pick<DashboardApp, 'server'>, services: DashboardServices): string | undefined {
  const isKnown = services.publicUrl !== undefined || portOf(app, services) !== 0;
  return isKnown ? baseUrlOf(app, services) : undefined;
}

/** Replaces port 0 by the port of the socket. */
function portOf(app: Pick<DashboardApp, 'server'>, { listener }: DashboardServices): number {
  const address = app.server.address();
  return typeof address === 'object' && address !== null ? address.port : listener.port;
}

/** Replaces a wildcard address by a name that can be called. */
function listenerUrl({ listener }: DashboardServices, port: number): string {
  const host = listener.host === '0.0.0.0' || listener.host === '::' ? 'localhost' : listener.host;
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
