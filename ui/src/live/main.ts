import { App } from "./app.ts";
import { Decisions } from "./decisions.ts";
import { Home } from "./home.ts";
import { Namespaces } from "./namespaces.ts";
import { Policies } from "./policies.ts";
import { Shadow } from "./shadow.ts";
import { Try } from "./try.ts";

new App([new Home(), new Policies(), new Namespaces(), new Decisions(), new Try(), new Shadow()]);
