import { type ComponentChild, type ComponentType, type FunctionComponent, h } from 'preact';
import type { Api } from './api-types.ts';
import type { Column } from './kit/list.tsx';
import type { Choice } from './kit/overlays.tsx';
import type { Look } from './looks.ts';

/** A part of the page: a screen of the kernel, or what a feature adds. `features/page.ts` lists the parts. */
export interface PagePart {
  readonly name: string;
  readonly routes?: readonly Route[];
  readonly place?: Place;
  /** What it shows on the screens of others. */
  readonly at?: { readonly [Slot in keyof Slots]?: FunctionComponent<Slots[Slot]> | undefined };
  /** Views of a flow. */
  readonly flowViews?: readonly FlowView[];
  /** Further columns of the list of flows. */
  readonly useFlowColumns?: () => readonly Column<Api['Flow']>[];
  readonly whileClosed?: WhileClosed;
  /** What its operations are called in the activity. */
  readonly actions?: Readonly<Record<string, string>>;
}

interface Route {
  readonly path: string;
  readonly page: ComponentType<{ params: Readonly<Record<string, string>> }>;
  /** What the browser's tab says until the page says more. */
  readonly title: string;
  /** What the page will ask for first, by the query of its address. */
  readonly question?: (query: URLSearchParams) => string;
}

/** A screen that the key leads to after `g`. */
interface Place {
  readonly text: string;
  readonly href: string;
  readonly key: string;
  /** In the navigation; without, only the key leads there. */
  readonly icon?: Look['icon'];
  /** Only for readers who see the whole service. */
  readonly isOfService?: boolean;
}

/** What may become of deliveries to a flow that is closed. Of one part alone. */
interface WhileClosed {
  /** Undefined where there is nothing to choose. The flow starts runs again by what is named. */
  choice(triggers: Api['Flow']['triggers'], until: 'enable' | 'resume'): Choice | undefined;
  /** What the service is told of the choice. */
  said(chosen: string | undefined): object;
}

/** Where parts show something on the screens of others, and what they are given there. */
interface Slots {
  /** Over every screen. */
  readonly everywhere: object;
  readonly overviewTools: object;
  readonly overviewCharts: object;
  readonly overviewColumns: object;
  /** Below all else of the overview. */
  readonly overview: object;
  readonly deliveriesTools: { readonly flows: readonly Api['Flow'][] };
  readonly deliveriesChart: object;
  readonly deliveryTools: {
    readonly id: string;
    /** Undefined until it is loaded. */
    readonly delivery: Api['DeliveryDetail'] | undefined;
    readonly refresh: () => void;
  };
  readonly runsTools: object;
  readonly runsChart: object;
  readonly flowsTools: object;
  readonly flowBadges: { readonly flow: Api['Flow'] };
  readonly flowTools: { readonly flow: Api['Flow'] };
  /** Among what an operator may do with a flow. */
  readonly flowActions: { readonly flow: Api['Flow']; readonly refresh: () => void };
  readonly flowRuns: { readonly flowId: string };
  /** Below the name of a trigger, on the page of its flow. */
  readonly trigger: { readonly trigger: Api['Flow']['triggers'][number] };
  /** Behind the name of a webhook. */
  readonly webhook: { readonly idOrSlug: string };
  /** Below what a deploy of a manifest would do. */
  readonly deploy: { readonly text: string; readonly isReady: boolean };
}

export interface FlowView {
  readonly value: string;
  readonly text: string;
  /** Only of flows that have one. */
  readonly isOfWebhooks?: boolean;
  readonly view: FunctionComponent<{ readonly flow: Api['FlowDetail']; readonly refresh: () => void }>;
}

let parts: readonly PagePart[] = [];

/** Called once, before anything is shown: no screen of the kernel imports a feature. */
export function handIn(all: readonly PagePart[]): void {
  parts = all;
}

/** What all parts show there, in their order. */
export function shownAt<Slot extends keyof Slots>(slot: Slot, props: Slots[Slot]): ComponentChild[] {
  return parts.flatMap(({ name, at }) => {
    const shown = at?.[slot];
    return shown === undefined ? [] : [h(shown, { ...props, key: name })];
  });
}

/** All routes, those without a parameter first: `/flows/flows/new` must not match `/flows/flows/:id`. */
export function allRoutes(): readonly Route[] {
  const routes = parts.flatMap((part) => part.routes ?? []);
  return [...routes.filter(({ path }) => !path.includes(':')), ...routes.filter(({ path }) => path.includes(':'))];
}

export function allPlaces(): readonly Place[] {
  return parts.flatMap(({ place }) => place ?? []);
}

export function allFlowViews(): readonly FlowView[] {
  return parts.flatMap(({ flowViews = [] }) => flowViews);
}

export const whileClosed = (): WhileClosed | undefined => parts.flatMap((part) => part.whileClosed ?? [])[0];

export const useFlowColumns = () => parts.flatMap((part) => part.useFlowColumns?.() ?? []);

export function allActions(): Readonly<Record<string, string>> {
  return Object.assign({}, ...parts.map(({ actions }) => actions));
}
