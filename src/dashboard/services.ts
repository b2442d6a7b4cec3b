import type {
  FastifyBaseLogger,
  FastifyInstance,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerDefault,
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
import type { FlowSwitch } from '../deploys/flow-switch.ts';
import type { Catalog } from '../flows/catalog.ts';
import type { Engine, RefreshFlow, RunControl } from '../flows/engine.ts';
import type { StepHandler } from '../flows/handlers/handler.ts';
import type { Heartbeat } from '../flows/heartbeat.ts';
import type { AttentionKind, AttentionKinds } from '../model/attention.ts';
import type { ServiceClock } from '../model/clock.ts';
import type { Reason } from '../model/delivery.ts';
import { withoutUser } from '../model/text.ts';
import type { TriggerName } from '../model/trigger-name.ts';
import type { DeliveryCount, FlowChange, Store } from '../store/store.ts';
import type { Sweeper } from '../sweeper.ts';
import type { LiveEvents } from '../telemetry/events.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { FlowAnswers } from '../webhooks/flow-answers.ts';
import type { Holding } from '../webhooks/holding.ts';
import type { ClientAddressReader, DeliveryReading } from '../webhooks/read-delivery.ts';
import type { ReceiverServices } from '../webhooks/receive.ts';
import type { SchemeDescription } from '../webhooks/scheme-descriptions.ts';
import type { KeySets } from '../webhooks/schemes/standards/key-sets.ts';
import type { PreparedTrigger, TriggerTable } from '../webhooks/triggers.ts';
import type { Finding, Situation } from './attention/finding.ts';
import type { OpenApiDocument } from './openapi.ts';
import type { Logins } from './session.ts';

/** What the dashboard needs of the rest of the process. */
export interface DashboardServices {
  /** All parts of the service, in the order of their routes in the API's document. */
  readonly parts: readonly ServicePart[];
  readonly settings: Settings;
  readonly store: Store;
  readonly catalog: Pick<Catalog, 'find' | 'list' | 'pinned' | 'unreadable'>;
  readonly deployment: Pick<Deployment, 'parse' | 'parseAll' | 'parseRevision' | 'deploy' | 'delete' | 'reload'>;
  readonly flowSwitch: FlowSwitch;
  readonly holding: Holding;
  readonly engine: Engine;
  readonly control: RunControl;
  /** The publishers' key sets. */
  readonly keySets: Pick<KeySets, 'listNew'>;
  readonly live: LiveEvents;
  /** What receives deliveries. */
  readonly receiver: ReceiverServices & DeliveryReading;
  /** Opens an empty store in memory, which lets others have the event loop. */
  readonly openSimulationStore: () => Promise<Store>;
  readonly extensions: PreparedExtensions;
  readonly metrics: Metrics;
  /** Undefined where this process has the store for itself. */
  readonly heartbeat: Pick<Heartbeat, 'state' | 'isFit'> | undefined;
  /** The settings as they are now: some are read again while the service runs. */
  readonly inForce: () => Settings;
  /** What people call this service. */
  readonly serviceName: string;
  readonly clock: ServiceClock;
  readonly newId: () => string;
  readonly logger: Logger;
  /** Whether the delivery log is in the database, and how many days both it and the runs, or the runs, are kept. */
  readonly kept: { readonly hasLog: boolean; readonly days: number; readonly runDays: number };
  /** Tells clients that log in apart; must not trust anything that a client can write. */
  readonly senderAddress: ClientAddressReader;
  /** Resolves after so many milliseconds; slows failed logins down. */
  readonly wait: (ms: number) => Promise<void>;
  /** A stop has begun: the process is not ready, though it may go on accepting for a while. */
  readonly isLeaving: () => boolean;
  /** It listens, and takes up what the last process left. */
  readonly isStarting: () => boolean;
  /** The process takes no new work. */
  readonly isStopping: () => boolean;
  readonly access: DashboardAccess;
  /** The credentials and sessions in force; undefined where there are none. */
  readonly logins: Logins | undefined;
  /** What the process listens on; with port 0 the port in use is read from the socket. */
  readonly listener: { readonly host: string; readonly port: number };
  /** Absolute base URL that publishers call, without a slash at its end. */
  readonly publicUrl: string | undefined;
  /** The table in force; a deploy puts a new one in its place. */
  readonly triggers: () => TriggerTable;
  readonly answers: Pick<FlowAnswers, 'unfit'>;
  readonly handlers: readonly Pick<StepHandler, 'type' | 'inputs' | 'secretInputs'>[];
  readonly schemes: readonly SchemeDescription[];
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

/** What a part may use of the process while it runs. */
export interface Host {
  readonly store: Store;
  readonly clock: ServiceClock;
  readonly logger: Logger;
  readonly newId: () => string;
  readonly live: LiveEvents;
  /** The table in force; a deploy puts a new one in its place. */
  readonly triggers: () => TriggerTable;
  readonly catalog: Catalog;
  readonly settings: Settings;
  readonly extensions: PreparedExtensions;
  readonly metrics: Metrics;
  readonly refresh: RefreshFlow;
  /** The settings as they are now; a part replaces those that it read again. */
  readonly inForce: SettingsInForce;
  /** These are there once every part has started. */
  readonly engine: () => Engine;
  readonly holding: () => Holding;
  readonly dashboard: () => DashboardServices;
  /** Where people reach the page, without a slash at its end; undefined while that is not known. */
  readonly pageUrl: () => string | undefined;
}

/** A gauge together with what measures it. */
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

/** The rules of a part that gives these kinds. One that they never give does not compile. */
export function rulesFor<Kinds extends AttentionKinds, Kind extends keyof Kinds & AttentionKind>(
  _kinds: [keyof Kinds] extends [Kind] ? Kinds : never,
  find: FindAttention<Kind>,
): FindAttention<AttentionKind> {
  return find;
}

export interface LastArrival extends TriggerName {
  /** Null where none ever came. */
  readonly lastAt: number | null;
}

/** What a part does in the background. */
export interface RunningPart {
  /** Works every minute while the service runs; of several replicas, one at a time. */
  readonly sweeper?: Sweeper;
  /** Called when the service listens, before any step runs. Called again where it rejects with `StoreUnavailableError`. */
  readonly prepare?: () => Promise<void>;
  /** Called when the service listens, and after each change of the triggers. */
  readonly onTriggers?: () => void;
  /** Called once the steps run. Called again where it rejects with `StoreUnavailableError`. */
  readonly begin?: () => Promise<void> | void;
  /** Another process changed something. Called again where it rejects. */
  readonly onChange?: (change: FlowChange) => Promise<void>;
  /** Awaited before those who deployed are answered; never rejects. */
  readonly onDeploys?: (deploys: readonly ToldDeploy[]) => Promise<void>;
  /** Called when the settings were read again. */
  readonly onSettings?: (settings: Settings) => void;
  /** What becomes of deliveries to flows that start no runs. Of one part alone. */
  readonly holding?: Holding;
  /** Called before the service stops to accept; resolves when nothing of the part runs any more. */
  readonly stop?: () => Promise<void>;
}

/**
 * What a feature, or a room of the kernel, adds to the service. `features/service.ts` lists the parts, and the composition
 * root hands that list in: nothing else names them.
 */
export interface ServicePart {
  readonly name: string;
  readonly routes?: readonly ApiRoutes[];
  /** Routes that need no login: who may use them is for each to find out. */
  readonly openRoutes?: ApiRoutes;
  /** Routes that show the API's own document. */
  readonly documentRoutes?: (document: () => Promise<OpenApiDocument>) => ApiRoutes;
  readonly gauges?: readonly MeasuredGauge[];
  /** What operators should look at. It reads by itself what the situation has not. */
  readonly attention?: FindAttention<AttentionKind>;
  /** What it knows of why deliveries are refused for a reason: a sentence for each cause. */
  readonly causes?: (refused: RefusedFor, services: DashboardServices) => Promise<readonly string[]>;
  /** When a delivery last came to triggers, of those that it knows. */
  readonly arrivals?: (services: DashboardServices) => Promise<readonly LastArrival[]>;
  readonly start?: (host: Host) => RunningPart;
}

interface RefusedFor extends Pick<DeliveryCount, 'flowId' | 'triggerKey'> {
  readonly reason: Reason;
  /** When they came, or the newest of them: milliseconds since the Unix epoch. */
  readonly at: number;
  /** Where it is one delivery alone. */
  readonly id?: string;
}

/** Why deliveries are refused, where a part knows more than the reason. */
export async function causesOf(refused: RefusedFor, services: DashboardServices): Promise<string[]> {
  const found = await Promise.all(services.parts.map(({ causes }) => causes?.(refused, services) ?? []));
  return found.flat();
}

export const servicePart = (part: ServicePart): ServicePart => part;

type Schemas = Readonly<Record<string, z.ZodType>>;

/** What a feature says of a webhook where flows are shown. `features/trigger-view.ts` lists the views. */
export interface TriggerView<Fields extends Schemas> {
  readonly fields: Fields;
  of(trigger: PreparedTrigger): { readonly [Name in keyof Fields]: z.input<Fields[Name]> };
}

export const triggerView = <const Fields extends Schemas>(view: TriggerView<Fields>): TriggerView<Fields> => view;

/** Where this process is reached from outside: the operator's setting without its password, else the listener. */
export function baseUrlOf(app: Pick<DashboardApp, 'server'>, services: DashboardServices): string {
  const { publicUrl } = services;
  return publicUrl === undefined ? listenerUrl(services, portOf(app, services)) : withoutUser(publicUrl);
}

/** The same; undefined while the system has not chosen the port yet. */
export function knownBaseUrl(app: Pick<DashboardApp, 'server'>, services: DashboardServices): string | undefined {
  const isKnown = services.publicUrl !== undefined || portOf(app, services) !== 0;
  return isKnown ? baseUrlOf(app, services) : undefined;
}

/** Port 0 becomes the port of the socket. */
function portOf(app: Pick<DashboardApp, 'server'>, { listener }: DashboardServices): number {
  const address = app.server.address();
  return typeof address === 'object' && address !== null ? address.port : listener.port;
}

/** A wildcard address becomes a name that can be called. */
function listenerUrl({ listener }: DashboardServices, port: number): string {
  const host = listener.host === '0.0.0.0' || listener.host === '::' ? 'localhost' : listener.host;
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
