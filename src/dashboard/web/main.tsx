import { render } from 'preact';
import { App } from './app.tsx';
import { startKeys } from './keys.ts';
import { startLive } from './live.ts';
import { startRouter } from './router.ts';

const root = document.getElementById('page');
if (root === null) throw new Error('The shell has no place for the page');
startRouter();
startLive();
startKeys();
render(<App />, root);
